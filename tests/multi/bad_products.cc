#include <gtest/gtest.h>

#include "tests/multi/bad_calls.h"

namespace sk::testing_ops {
namespace {

sk_tensor tensor(void* data, int64_t rows, int64_t cols) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = SK_F32;
  t.data = data;
  t.ndim = 2;
  t.shape[0] = rows;
  t.shape[1] = t.strides[0] = cols;
  t.strides[1] = 1;
  return t;
}

}  // namespace

const std::vector<BadCall>& bad_products() {
  static const std::vector<BadCall> calls = {
      {"gemm null a", SK_ERR_INVALID_ARGUMENT, "a is null",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, nullptr, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm without b", SK_ERR_INVALID_ARGUMENT, "none was",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, &a, nullptr, nullptr, &d, 0, nullptr);
       }},
      {"gemm inner size", SK_ERR_INVALID_ARGUMENT, "a has K = 3 but b has K = 2",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 3), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm outer size", SK_ERR_INVALID_ARGUMENT, "c has shape [3, 2]",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 3, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gathered gemm outer size", SK_ERR_INVALID_ARGUMENT, "c has shape [2, 2], it must be [4, 2]",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allgather_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gathered gemm inner size", SK_ERR_INVALID_ARGUMENT, "a has K = 3 but b has K = 2",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 3), b = tensor(in, 2, 2), d = tensor(out, 4, 2);
         return sk_allgather_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gathered gemm in place", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, float* in, float*) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in + 8, 2, 2), d = tensor(in, 4, 2);
         return sk_allgather_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gathered gemm flags", SK_ERR_INVALID_ARGUMENT, "flags is 0x4",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 4, 2);
         return sk_allgather_gemm(c, &a, &b, nullptr, &d, 4, nullptr);
       }},
      {"gemm columns apart", SK_ERR_INVALID_ARGUMENT, "innermost stride 2",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         a.strides[1] = 2;
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm in place", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, float* in, float*) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in + 8, 2, 2), d = tensor(in, 2, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"pack integers", SK_ERR_INVALID_ARGUMENT, "b is i32",
       [](sk_comm* c, float* in, float*) {
         sk_tensor b = tensor(in, 2, 2);
         b.dtype = SK_I32;
         sk_packed* packed = nullptr;
         return sk_pack(c, &b, 0, &packed);
       }},
      {"freed weights", SK_ERR_BAD_HANDLE, "packed weights",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         sk_packed* packed = nullptr;
         EXPECT_EQ(sk_pack(c, &b, 0, &packed), SK_OK);
         EXPECT_EQ(sk_packed_free(packed), SK_OK);
         return sk_allreduce_gemm(c, &a, nullptr, packed, &d, 0, nullptr);
       }},
      {"a product whose result is narrower", SK_ERR_INVALID_ARGUMENT,
       "c is f64, it must be f32, as a and b are",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), result = tensor(out, 2, 2);
         result.dtype = SK_F64;
         return sk_allreduce_gemm(c, &a, &b, nullptr, &result, 0, nullptr);
       }},
  };
  return calls;
}

}  // namespace sk::testing_ops
