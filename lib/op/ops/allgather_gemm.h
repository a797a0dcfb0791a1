// C = the ranks' A, one below the other, * the own B: include/sk/op.h.
#ifndef SK_LIB_OP_OPS_ALLGATHER_GEMM_H_
#define SK_LIB_OP_OPS_ALLGATHER_GEMM_H_

#include "lib/op/ops/product.h"

namespace sk::ops {
namespace allgather_gemm {

inline constexpr OperandSchema kOperands[] = {
    product::a(/*reached=*/true), product::c("world * m, n", /*reached=*/false), product::kB};

inline constexpr InnerArray kArrays[] = {{"gathered", "a", "world * m, k"}};

inline constexpr Steps kMeaning = steps_of(
    "gathered@q[r * m + i, l] = a@r[i, l]; "
    "c@q[i, j] = sum(l uncut) mul(gathered@q[i, l], b@q[l, j])");

}  // namespace allgather_gemm

inline constexpr Schema kAllgatherGemm = {
    .id = OpKind::kAllgatherGemm,
    .name = "allgather_gemm",
    .brief = product::kBrief,
    .dimensions = product::kDimensions,
    .operands = allgather_gemm::kOperands,
    .attributes = product::kAttributes,
    .arrays = allgather_gemm::kArrays,
    .meaning = &allgather_gemm::kMeaning,
    .summary =
        "c = the ranks' a, one below the other, times the "
        "own b: tiles begin as shards arrive, the own first."};

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_ALLGATHER_GEMM_H_
