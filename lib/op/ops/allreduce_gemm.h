// C = the sum over ranks of A * B: include/sk/op.h.
#ifndef SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_
#define SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_

#include "lib/op/ops/product.h"

namespace sk::ops {
namespace allreduce_gemm {

inline constexpr OperandSchema kOperands[] = {product::a(/*reached=*/false),
                                              product::c("m, n", /*reached=*/true), product::kB};

inline constexpr InnerArray kArrays[] = {{"part", "accumulator(a)", "m, n"}};

inline constexpr Steps kMeaning = steps_of(
    "part@r[i, j] = sum(l uncut) mul(a@r[i, l], b@r[l, j]); c@q[i, j] = sum(r) part@r[i, j]");

}  // namespace allreduce_gemm

inline constexpr Schema kAllreduceGemm = {.id = OpKind::kAllreduceGemm,
                                          .name = "allreduce_gemm",
                                          .brief = product::kBrief,
                                          .dimensions = product::kDimensions,
                                          .operands = allreduce_gemm::kOperands,
                                          .attributes = product::kAttributes,
                                          .arrays = allreduce_gemm::kArrays,
                                          .meaning = &allreduce_gemm::kMeaning,
                                          .summary =
                                              "c = the sum over ranks of a * b, on every rank: a "
                                              "product, then an all-reduce, overlapped."};

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_
