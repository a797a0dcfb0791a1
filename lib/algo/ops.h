// The planners behind make_plan(): each lays out the buffers, then writes the parts of `ranks`.
#ifndef SK_LIB_ALGO_OPS_H_
#define SK_LIB_ALGO_OPS_H_

#include <span>

#include "lib/algo/planner.h"

namespace sk::algo {

using Ranks = std::span<const uint32_t>;

// A form whose plans are judged part by part.
struct LargeForm {
  Plan (*plan)(const OpDesc& op, const Target& target, Ranks ranks);
  FlowsOf (*flows)(const OpDesc& op, const Target& target);
  // How many chunks a rank passes on.
  uint64_t (*chunks)(const OpDesc& op, const Target& target);
  bool (*does)(const OpDesc& op, const Target& target) = nullptr;  // Null: it does all.
};

// Of an operation that has something to move. Ranks that only meet are planned without one.
struct Planner {
  OpKind op;
  Result<Plan> (*plan)(const OpDesc& op, const Target& target, Ranks ranks);
  Product (*product)(const OpDesc& op, const Target& target) = nullptr;  // Null: it has none.
  // Of worlds that are too large for it (large_worlds.h); null, or where it does not do `op`: none.
  const LargeForm* large = nullptr;
};

Result<Plan> plan_barrier(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_allreduce(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_allgather(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_reduce_scatter(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_broadcast(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_alltoall(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_reduce(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_gather(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_scatter(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_send_recv(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_allreduce_gemm(const OpDesc& op, const Target& target, Ranks ranks);
Product allreduce_gemm_product(const OpDesc& op, const Target& target);
Result<Plan> plan_allgather_gemm(const OpDesc& op, const Target& target, Ranks ranks);
Product allgather_gemm_product(const OpDesc& op, const Target& target);
Result<Plan> plan_rmsnorm(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_add_rmsnorm(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_rmsnorm_backward(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_adamw(const OpDesc& op, const Target& target, Ranks ranks);
Result<Plan> plan_user_tile(const OpDesc& op, const Target& target, Ranks ranks);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_OPS_H_
