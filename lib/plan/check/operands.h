// What an op asks of its callers' buffers, in terms of a plan.
#ifndef SK_LIB_PLAN_CHECK_OPERANDS_H_
#define SK_LIB_PLAN_CHECK_OPERANDS_H_

#include "lib/op/extent.h"
#include "lib/plan/plan.h"

namespace sk::check {

inline Operands operands_of(const Plan& plan) {
  return Operands(plan.op, plan.target.world_size, plan.target.packed_bytes);
}

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_OPERANDS_H_
