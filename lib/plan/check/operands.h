// What an op asks of its callers' buffers, in terms of a plan.
#ifndef SK_LIB_PLAN_CHECK_OPERANDS_H_
#define SK_LIB_PLAN_CHECK_OPERANDS_H_

#include "lib/op/extent.h"
#include "lib/plan/plan.h"

namespace sk::check {

inline Extent operand_extent(const Plan& plan, uint32_t operand) {
  return sk::operand_extent(plan.op, operand, plan.target.world_size, plan.target.packed_bytes);
}

// Of one rank's operand 1, in the one buffer where in place: what the op defines there.
inline Window output_window(const Plan& plan, uint32_t rank) {
  return operand_window(plan.op, 1, plan.target.world_size, rank, plan.target.packed_bytes);
}
// Of its operand 0: what the caller has put there before the run.
inline Window input_window(const Plan& plan, uint32_t rank) {
  return operand_window(plan.op, 0, plan.target.world_size, rank, plan.target.packed_bytes);
}

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_OPERANDS_H_
