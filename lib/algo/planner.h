// Planners: pure functions from an op and a target to a plan. One file per operation.
#ifndef SK_LIB_ALGO_PLANNER_H_
#define SK_LIB_ALGO_PLANNER_H_

#include <optional>

#include "lib/plan/flow.h"
#include "lib/plan/plan.h"

namespace sk {

// All ranks' parts; or that of `rank` alone, which costs 1 / world_size of it. Both say
// SK_ERR_UNSUPPORTED where an op needs more than the target has (docs/plan-format.md: limits).
Result<Plan> make_plan(const OpDesc& op, const Target& target);
Result<Plan> make_plan_part(const OpDesc& op, const Target& target, uint32_t rank);

// What passes between ranks in plans of `op` that are judged part by part (validate_part()); none
// where they are judged whole.
std::optional<FlowsOf> flows_of(const OpDesc& op, const Target& target);

// The operation with that of its free dimension (lib/plan/free_rows.h) for which plans are made: as
// much or up to a quarter more (a sixteenth where workers share it), so that a few plans do for
// all. Unchanged where the operation has none, or nothing of it, or is so large that planning it
// anew is not felt. `in_effect` gets what a run of that plan is to be told.
OpDesc with_room(OpDesc op, uint64_t* in_effect);

// A product [m, n] that plans of an op cut into tiles, for so many workers at one time: what the
// machine that runs them is asked for the target's tiles and packed B.
struct Product {
  DType dtype;
  int64_t m, n, k;
  uint32_t parts;
  int64_t lda;       // Of the caller's A,
  bool transpose_a;  // which holds [k, m].
  int64_t ldb;       // Of the caller's B, 0 where it comes packed,
  bool transpose_b;  // which holds [n, k].
};
// None where plans of `op` have no such tiles.
std::optional<Product> product_of(const OpDesc& op, const Target& target);

}  // namespace sk

#endif  // SK_LIB_ALGO_PLANNER_H_
