// What an op asks of its callers' buffers: how large, what lies in them, what must end in them.
#ifndef SK_LIB_PLAN_CHECK_OPERANDS_H_
#define SK_LIB_PLAN_CHECK_OPERANDS_H_

#include "lib/plan/plan.h"

namespace sk::check {

// Elements as rows of `row_bytes`, `stride` apart; vectors are one row. `bytes` is the whole.
struct Extent {
  uint64_t rows = 0, row_bytes = 0, stride = 0;
  uint64_t bytes = 0;
  bool overflow = false;
};

// The memory behind operand 0, 1 or 2 of every rank that has it; 0 bytes where the op has none.
Extent operand_extent(const Plan& plan, uint32_t operand);

// The bytes of rank `rank`'s output that the op defines: [first, first + count) of operand 1 (of
// the one buffer where in place); all of operand_extent() for GEMM.
struct Window {
  uint64_t first = 0, count = 0;
};
Window output_window(const Plan& plan, uint32_t rank);
// The same for what the caller has put into the input before the run.
Window input_window(const Plan& plan, uint32_t rank);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_OPERANDS_H_
