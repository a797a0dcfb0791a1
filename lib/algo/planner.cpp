#include "lib/algo/planner.h"

#include <algorithm>
#include <numeric>

#include "lib/algo/large_worlds.h"
#include "lib/algo/ops.h"
#include "lib/op/extent.h"
#include "lib/op/schema.h"

namespace sk {
namespace {

constexpr algo::LargeForm kSumChain = {algo::sum_chain, algo::sum_chain_flows,
                                       algo::sum_chain_chunks, algo::sum_chain_does};
constexpr algo::LargeForm kGatherRing = {algo::allgather_ring, algo::allgather_ring_flows,
                                         algo::allgather_ring_chunks};
constexpr algo::LargeForm kBroadcastChain = {algo::broadcast_chain, algo::broadcast_chain_flows,
                                             algo::broadcast_chain_chunks};

constexpr algo::LargeForm kGatherGemmRing = {
    algo::allgather_gemm_ring, algo::allgather_gemm_ring_flows, algo::allgather_gemm_ring_chunks,
    algo::allgather_gemm_ring_does};

// One line for each operation that moves anything.
constexpr algo::Planner kPlanners[] = {
    {OpKind::kAllreduce, algo::plan_allreduce, nullptr, &kSumChain},
    {OpKind::kAllgather, algo::plan_allgather, nullptr, &kGatherRing},
    {OpKind::kReduceScatter, algo::plan_reduce_scatter, nullptr, &kSumChain},
    {OpKind::kBroadcast, algo::plan_broadcast, nullptr, &kBroadcastChain},
    {OpKind::kAlltoall, algo::plan_alltoall},
    {OpKind::kReduceToRoot, algo::plan_reduce},
    {OpKind::kGather, algo::plan_gather},
    {OpKind::kScatter, algo::plan_scatter},
    {OpKind::kSendRecv, algo::plan_send_recv},
    {OpKind::kAllreduceGemm, algo::plan_allreduce_gemm, algo::allreduce_gemm_product},
    {OpKind::kAllgatherGemm, algo::plan_allgather_gemm, algo::allgather_gemm_product,
     &kGatherGemmRing},
    {OpKind::kRmsnorm, algo::plan_rmsnorm},
    {OpKind::kRmsnormBackward, algo::plan_rmsnorm_backward},
    {OpKind::kAddRmsnorm, algo::plan_add_rmsnorm},
    {OpKind::kAdamw, algo::plan_adamw},
};

// Of those that users made of tiles.
constexpr algo::Planner kUserPlanner = {OpKind::kUserFirst, algo::plan_user_tile};

constexpr uint64_t kPutBytesLeast = 8;  // The largest element.

// Of what a rank passes on in a large world: its part, with the flows by which it is judged, takes
// some 500 bytes for each.
constexpr uint64_t kPassedChunksMax = 1 << 20;

const algo::Planner* planner_of(const OpDesc& op) {
  if (op.schema().tile != TaskOp::kNop) return &kUserPlanner;
  const auto* const found =
      std::find_if(std::begin(kPlanners), std::end(kPlanners),
                   [&](const algo::Planner& each) { return each.op == op.kind(); });
  return found != std::end(kPlanners) ? found : nullptr;
}

// Ranks meet, and that is all: there is nothing to compute, or it lies where it belongs. Two ranks
// of a pair do not meet with all others for that.
bool moves_nothing(const OpDesc& op, const Target& target) {
  if (is_pair(op)) return false;
  const Operands operands(op, target.world_size, target.packed_bytes);
  return operands.count() == 0 || (target.world_size == 1 && op.in_place() && !is_local(op));
}

const algo::LargeForm* large_form(const OpDesc& op, const Target& target) {
  const algo::Planner* planner = planner_of(op);
  if (planner == nullptr || planner->large == nullptr || !algo::is_large(target)) return nullptr;
  const bool does = planner->large->does == nullptr || planner->large->does(op, target);
  return does ? planner->large : nullptr;
}

Result<Plan> make(const OpDesc& op, const Target& target, algo::Ranks ranks) {
  if (target.put_bytes_max < kPutBytesLeast) {
    return error(SK_ERR_UNSUPPORTED, "a put of {} bytes at most cannot carry one element",
                 target.put_bytes_max);
  }
  if (is_local(op) && target.world_size != 1) {
    return error(SK_ERR_INTERNAL, "{} is planned for {} ranks", describe(op), target.world_size);
  }
  if (moves_nothing(op, target)) return algo::plan_barrier(op, target, ranks);
  if (const algo::LargeForm* form = large_form(op, target)) {
    const uint64_t chunks = form->chunks(op, target);
    if (chunks <= kPassedChunksMax) return form->plan(op, target, ranks);
    return error(
        SK_ERR_UNSUPPORTED,
        "{} among {} ranks would go on from rank to rank in {} pieces, where a put carries "
        "{} bytes; at most {} are planned for",
        describe(op), target.world_size,
        chunks < UINT32_MAX ? std::to_string(chunks) : "more than 4 billion", target.put_bytes_max,
        kPassedChunksMax);
  }
  if (!is_pair(op) && target.world_size > algo::kMappedPairsMax) {
    return error(
        SK_ERR_UNSUPPORTED,
        "{} has a form for up to {} ranks, here are {}: make communicators of fewer, or use "
        "what goes from rank to rank (sums, all-gather, broadcast; allgather_gemm of a that "
        "is not transposed)",
        describe(op), algo::kMappedPairsMax, target.world_size);
  }
  if (const algo::Planner* planner = planner_of(op)) return planner->plan(op, target, ranks);
  return error(SK_ERR_UNSUPPORTED, "no planner for {}", op.schema().name);
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

std::optional<FlowsOf> flows_of(const OpDesc& op, const Target& target) {
  if (moves_nothing(op, target)) {
    if (target.world_size <= algo::kAllPairsMax) return std::nullopt;
    return [](uint32_t) { return std::vector<Flow>(); };
  }
  const algo::LargeForm* form = large_form(op, target);
  return form == nullptr ? std::nullopt : std::optional(form->flows(op, target));
}

std::optional<Product> product_of(const OpDesc& op, const Target& target) {
  const algo::Planner* planner = planner_of(op);
  if (planner == nullptr || planner->product == nullptr) return std::nullopt;
  return planner->product(op, target);
}

}  // namespace sk
