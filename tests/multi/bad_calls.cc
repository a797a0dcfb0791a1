#include "tests/multi/bad_calls.h"

namespace sk::testing_ops {

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls = {
      {"allreduce null in", SK_ERR_INVALID_ARGUMENT, "in is null",
       [](sk_comm* c, float*, float* out) {
         return sk_allreduce(c, nullptr, out, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce null out", SK_ERR_INVALID_ARGUMENT, "out is null",
       [](sk_comm* c, float* in, float*) {
         return sk_allreduce(c, in, nullptr, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce negative count", SK_ERR_INVALID_ARGUMENT, "count is -1",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, -1, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce huge count", SK_ERR_INVALID_ARGUMENT, "count is 9223372036854775807",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, INT64_MAX, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce dtype", SK_ERR_INVALID_ARGUMENT, "dtype is 99",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, 99, SK_SUM, nullptr);
       }},
      {"allreduce op", SK_ERR_INVALID_ARGUMENT, "op is 0",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, SK_F32, 0, nullptr);
       }},
      {"average of integers", SK_ERR_INVALID_ARGUMENT, "SK_AVG with i32",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, SK_I32, SK_AVG, nullptr);
       }},
      {"overlap", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, float* in, float*) {
         return sk_allreduce(c, in, in + 1, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"alignment", SK_ERR_INVALID_ARGUMENT, "not aligned",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, reinterpret_cast<char*>(in) + 1, out, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"broadcast root", SK_ERR_INVALID_ARGUMENT, "root is 2",
       [](sk_comm* c, float* in, float* out) {
         return sk_broadcast(c, in, out, 4, SK_F32, 2, nullptr);
       }},
      {"send to nobody", SK_ERR_INVALID_ARGUMENT, "peer is -1",
       [](sk_comm* c, float* in, float*) { return sk_send(c, in, 4, SK_F32, -1, nullptr); }},
      {"recv null", SK_ERR_INVALID_ARGUMENT, "out is null",
       [](sk_comm* c, float*, float*) { return sk_recv(c, nullptr, 4, SK_F32, 0, nullptr); }},
      {"alloc nothing", SK_ERR_INVALID_ARGUMENT, "bytes is 0",
       [](sk_comm* c, float*, float*) {
         void* memory = nullptr;
         return sk_alloc(c, 0, &memory);
       }},
      {"free foreign", SK_ERR_INVALID_ARGUMENT, "sk_alloc",
       [](sk_comm* c, float* in, float*) { return sk_free(c, in); }},
      {"deregister unknown", SK_ERR_INVALID_ARGUMENT, "not registered",
       [](sk_comm* c, float* in, float*) { return sk_deregister(c, in); }},
      {"query null", SK_ERR_INVALID_ARGUMENT, "info is null",
       [](sk_comm* c, float*, float*) { return sk_comm_query(c, nullptr); }},
      {"options for a GPU", SK_ERR_UNSUPPORTED, "device 2:0",
       [](sk_comm* c, float*, float*) {
         sk_run_options options{};
         options.struct_size = sizeof(options);
         options.device_type = 2;
         return sk_barrier(c, &options);
       }},
      {"options timeout", SK_ERR_INVALID_ARGUMENT, "timeout_ms is -5",
       [](sk_comm* c, float*, float*) {
         sk_run_options options{};
         options.struct_size = sizeof(options);
         options.timeout_ms = -5;
         return sk_barrier(c, &options);
       }},
      {"options without size", SK_ERR_INVALID_ARGUMENT, "struct_size is 0",
       [](sk_comm* c, float*, float*) {
         const sk_run_options options{};
         return sk_barrier(c, &options);
       }},
      {"trace into null", SK_ERR_INVALID_ARGUMENT, "out_size is null",
       [](sk_comm* c, float*, float*) { return sk_trace_dump(c, nullptr, 0, nullptr); }},
      {"null communicator", SK_ERR_BAD_HANDLE, "communicator is null",
       [](sk_comm*, float*, float*) { return sk_barrier(nullptr, nullptr); }},
      {"foreign handle", SK_ERR_BAD_HANDLE, "not a communicator",
       [](sk_comm*, float* in, float*) {
         return sk_barrier(reinterpret_cast<sk_comm*>(in), nullptr);
       }},
  };
  return calls;
}

}  // namespace sk::testing_ops
