#include "lib/algo/planner.h"

#include <numeric>

#include "lib/algo/ops.h"
#include "lib/op/ops/collectives.h"

namespace sk {
namespace {

constexpr uint64_t kPutBytesLeast = 8;  // The largest element.

// Ranks meet, and that is all: there is nothing to move, or it lies where it belongs.
bool moves_nothing(const OpDesc& op, const Target& target) {
  switch (op.kind()) {
    case OpKind::kAllreduce:
    case OpKind::kAllgather:
    case OpKind::kReduceScatter:
    case OpKind::kBroadcast:
      return vector_call(op).count == 0 || (target.world_size == 1 && op.in_place());
    case OpKind::kSendRecv:       // Of two ranks.
    case OpKind::kAllreduceGemm:  // Moves operands at least.
    case OpKind::kBarrier:        // These are nothing else.
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      break;
  }
  return false;
}

Result<Plan> make(const OpDesc& op, const Target& target, algo::Ranks ranks) {
  if (target.put_bytes_max < kPutBytesLeast) {
    return error(SK_ERR_UNSUPPORTED, "a put of {} bytes at most cannot carry one element",
                 target.put_bytes_max);
  }
  if (moves_nothing(op, target)) return algo::plan_barrier(op, target, ranks);
  switch (op.kind()) {
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
    case OpKind::kBarrier:
      return algo::plan_barrier(op, target, ranks);
    case OpKind::kAllreduce:
      return algo::plan_allreduce(op, target, ranks);
    case OpKind::kAllgather:
      return algo::plan_allgather(op, target, ranks);
    case OpKind::kReduceScatter:
      return algo::plan_reduce_scatter(op, target, ranks);
    case OpKind::kBroadcast:
      return algo::plan_broadcast(op, target, ranks);
    case OpKind::kSendRecv:
      return algo::plan_send_recv(op, target, ranks);
    case OpKind::kAllreduceGemm:
      return algo::plan_allreduce_gemm(op, target, ranks);
  }
  return error(SK_ERR_UNSUPPORTED, "no planner for operation {}", int(op.kind()));
}

}  // namespace

Result<Plan> make_plan(const OpDesc& op, const Target& target) {
  std::vector<uint32_t> ranks(target.world_size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return make(op, target, ranks);
}

Result<Plan> make_plan_part(const OpDesc& op, const Target& target, uint32_t rank) {
  return make(op, target, std::span(&rank, 1));
}

}  // namespace sk
