#include "lib/api/objects.h"
#include "lib/comm/arguments.h"
#include "sk/op.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

// `make` turns the arguments into a Call; `key` are the arguments.
template <typename Make>
sk_status execute(sk_comm* comm, const CallKey& key, const sk_run_options* options,
                  const Make& make) noexcept {
  return with_comm(comm, options, [&](Communicator& communicator) -> Status {
    if (KnownCall* known = communicator.known(key)) [[likely]]
      return communicator.run(*known);
    SK_ASSIGN_OR_RETURN(const Call call, make(world_of(communicator)));
    return communicator.execute(call, key);
  });
}

CallKey key_of(OpKind kind, const void* in, const void* out, int64_t count, int32_t dtype,
               int32_t variant, const sk_run_options* options, bool sends = false) {
  const uint32_t function = options == nullptr ? uint32_t(kind) + 1 : 0;
  return {function, dtype, variant, sends, in, out, count};
}

struct ProductArgs {
  const sk_tensor *a, *b;
  const sk_packed* packed;
  const sk_tensor* c;
  uint32_t flags;
  const sk_run_options* options;
};

// `make` is one of the functions for calls that multiply.
template <typename Make>
sk_status multiply(Make make, sk_comm* comm, const ProductArgs& args) noexcept {
  const auto& [a, b, packed, c, flags, options] = args;
  return with_comm(comm, options, [&](Communicator& communicator) -> Status {
    const auto run = [&](const Packed* weights) -> Status {
      SK_ASSIGN_OR_RETURN(const Call call,
                          make(world_of(communicator), a, b, weights, c, flags, options));
      return communicator.execute(call, {});
    };
    if (packed == nullptr) return run(nullptr);
    SK_ASSIGN_OR_RETURN(const auto weights, packed_weights.pin(packed));
    return run(&*weights);
  });
}

}  // namespace

sk_status sk_allreduce(sk_comm* comm, const void* in, void* out, int64_t count, int32_t dtype,
                       int32_t op, const sk_run_options* options) noexcept {
  return execute(
      comm, key_of(OpKind::kAllreduce, in, out, count, dtype, op, options), options,
      [&](World world) { return allreduce_call(world, in, out, count, dtype, op, options); });
}

sk_status sk_allgather(sk_comm* comm, const void* in, void* out, int64_t count, int32_t dtype,
                       const sk_run_options* options) noexcept {
  return execute(
      comm, key_of(OpKind::kAllgather, in, out, count, dtype, 0, options), options,
      [&](World world) { return allgather_call(world, in, out, count, dtype, options); });
}

sk_status sk_reduce_scatter(sk_comm* comm, const void* in, void* out, int64_t count, int32_t dtype,
                            int32_t op, const sk_run_options* options) noexcept {
  return execute(
      comm, key_of(OpKind::kReduceScatter, in, out, count, dtype, op, options), options,
      [&](World world) { return reduce_scatter_call(world, in, out, count, dtype, op, options); });
}

sk_status sk_broadcast(sk_comm* comm, const void* in, void* out, int64_t count, int32_t dtype,
                       int32_t root, const sk_run_options* options) noexcept {
  return execute(
      comm, key_of(OpKind::kBroadcast, in, out, count, dtype, root, options), options,
      [&](World world) { return broadcast_call(world, in, out, count, dtype, root, options); });
}

sk_status sk_barrier(sk_comm* comm, const sk_run_options* options) noexcept {
  return execute(comm, key_of(OpKind::kBarrier, nullptr, nullptr, 0, 0, 0, options), options,
                 [&](World world) { return barrier_call(world, options); });
}

sk_status sk_send(sk_comm* comm, const void* in, int64_t count, int32_t dtype, int32_t peer,
                  const sk_run_options* options) noexcept {
  return execute(
      comm, key_of(OpKind::kSendRecv, in, nullptr, count, dtype, peer, options, /*sends=*/true),
      options, [&](World world) { return send_call(world, in, count, dtype, peer, options); });
}

sk_status sk_recv(sk_comm* comm, void* out, int64_t count, int32_t dtype, int32_t peer,
                  const sk_run_options* options) noexcept {
  return execute(comm, key_of(OpKind::kSendRecv, nullptr, out, count, dtype, peer, options),
                 options,
                 [&](World world) { return recv_call(world, out, count, dtype, peer, options); });
}

sk_status sk_pack(sk_comm* comm, const sk_tensor* b, uint32_t flags,
                  sk_packed** out_packed) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_packed", out_packed));
    SK_ASSIGN_OR_RETURN(const auto use, comms.pin(comm));
    SK_ASSIGN_OR_RETURN(const PackArgs args, pack_args(world_of(*use->communicator), b, flags));
    SK_ASSIGN_OR_RETURN(auto packed, use->communicator->pack(args));
    SK_ASSIGN_OR_RETURN(void* handle, packed_weights.add(std::move(packed)));
    *out_packed = static_cast<sk_packed*>(handle);
    return {};
  });
}

sk_status sk_packed_free(sk_packed* packed) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_outside_tiles());
    return std::move(packed_weights.remove(packed).status());
  });
}

sk_status sk_allreduce_gemm(sk_comm* comm, const sk_tensor* a, const sk_tensor* b,
                            const sk_packed* packed, sk_tensor* c, uint32_t flags,
                            const sk_run_options* options) noexcept {
  return multiply(allreduce_gemm_call, comm, {a, b, packed, c, flags, options});
}

sk_status sk_allgather_gemm(sk_comm* comm, const sk_tensor* a, const sk_tensor* b,
                            const sk_packed* packed, sk_tensor* c, uint32_t flags,
                            const sk_run_options* options) noexcept {
  return multiply(allgather_gemm_call, comm, {a, b, packed, c, flags, options});
}
