#include "lib/api/objects.h"
#include "lib/comm/arguments.h"
#include "lib/op/ops/all.h"
#include "sk/op.h"
#include "sk/ops.h"

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

constexpr uint32_t kProductFlags = SK_GEMM_TRANSPOSE_A | SK_GEMM_TRANSPOSE_B;

struct ProductArgs {
  const sk_tensor *a, *b;
  const sk_packed* packed;
  const sk_tensor* c;
  uint32_t flags;
  const sk_run_options* options;
};

// What sk_call() would be given for it, by whose words both remember it. `flags` are known ones.
template <typename Args>
Args as_struct(const ProductArgs& args) {
  Args out{};
  out.struct_size = sizeof out;
  out.a = args.a;
  out.b = args.b;
  out.b_packed = args.packed;
  out.c = const_cast<sk_tensor*>(args.c);
  out.transpose_a = (args.flags & SK_GEMM_TRANSPOSE_A) != 0 ? 1 : 0;
  out.transpose_b = (args.flags & SK_GEMM_TRANSPOSE_B) != 0 ? 1 : 0;
  return out;
}

// `make` is one of the functions for calls that multiply.
template <typename Args, typename Make>
sk_status multiply(const Schema& schema, Make make, sk_comm* comm,
                   const ProductArgs& args) noexcept {
  const auto& [a, b, packed, c, flags, options] = args;
  return with_comm(comm, options, [&](Communicator& communicator) -> Status {
    const auto run = [&](const Packed* weights) -> Status {
      const Args named = as_struct<Args>(args);
      CallWords words;
      const bool known = options == nullptr && (flags & ~kProductFlags) == 0 &&
                         words.read(schema, arg_layout(schema), &named);
      if (KnownCall* its = known ? communicator.known(words) : nullptr) [[likely]]
        return communicator.run(*its);
      SK_ASSIGN_OR_RETURN(Call call,
                          make(world_of(communicator), a, b, weights, c, flags, options));
      if (known) call.words = &words;
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
    // Its own call, which it must not wait for, may be the one that has them.
    auto gone =
        InsideTile::is() ? packed_weights.remove_idle(packed) : packed_weights.remove(packed);
    return std::move(gone.status());
  });
}

sk_status sk_allreduce_gemm(sk_comm* comm, const sk_tensor* a, const sk_tensor* b,
                            const sk_packed* packed, sk_tensor* c, uint32_t flags,
                            const sk_run_options* options) noexcept {
  return multiply<sk_allreduce_gemm_args>(ops::kAllreduceGemm, allreduce_gemm_call, comm,
                                          {a, b, packed, c, flags, options});
}

sk_status sk_allgather_gemm(sk_comm* comm, const sk_tensor* a, const sk_tensor* b,
                            const sk_packed* packed, sk_tensor* c, uint32_t flags,
                            const sk_run_options* options) noexcept {
  return multiply<sk_allgather_gemm_args>(ops::kAllgatherGemm, allgather_gemm_call, comm,
                                          {a, b, packed, c, flags, options});
}
