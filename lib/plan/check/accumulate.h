// How contributions are joined: which types sums are kept in, and what a reduction makes of tags.
#ifndef SK_LIB_PLAN_CHECK_ACCUMULATE_H_
#define SK_LIB_PLAN_CHECK_ACCUMULATE_H_

#include "lib/plan/check/stream.h"

namespace sk::check {

// bf16 and f16 are reduced in f32, all else in itself.
constexpr DType accumulator(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

// What kReduce may turn `from` into: itself, or partial sums into what they end as.
constexpr bool reduces_to(DType from, DType to) {
  return from == to || (from == DType::kF32 && (to == DType::kBF16 || to == DType::kF16)) ||
         (from == DType::kF64 && to == DType::kF32);
}

// The tag of `redop` over tags in this order. Floating sums are left folds: the first may be a sum
// already, the others are single contributions.
Result<Tag> join(const std::vector<Tag>& tags, RedOp redop, DType dtype, DType out_dtype,
                 const Where& where);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_ACCUMULATE_H_
