// A residual added to rows, and what that gives normalised: of each rank alone.
#ifndef SK_LIB_OP_OPS_ADD_RMSNORM_H_
#define SK_LIB_OP_OPS_ADD_RMSNORM_H_

#include "lib/op/ops/rmsnorm.h"

namespace sk::ops {
namespace rows {

inline constexpr OperandSchema kResidual = {.name = "residual",
                                            .role = Role::kIn,
                                            .types = "x",
                                            .shape = "m, n",
                                            .storage = Storage::kRows},
                               kTotal = {.name = "total",
                                         .role = Role::kOut,
                                         .types = "residual",
                                         .shape = "m, n",
                                         .storage = Storage::kRows,
                                         .alias = "residual"};
inline constexpr OperandSchema kAdded[] = {kX, kResidual, kY, kTotal, kWeight, kRstdOut};

inline constexpr Steps kAddedAndNormed = steps_of(
    "total@r[i, j] = add(x@r[i, j], residual@r[i, j]); "
    "y@r[i, j] = rmsnorm[j](total@r[i, j], weight@r[j], eps = eps); "
    "rstd@r[i] = rms[j](total@r[i, j], eps = eps)");

}  // namespace rows

inline constexpr Schema kAddRmsnorm = {
    .id = OpKind::kAddRmsnorm,
    .name = "add_rmsnorm",
    .brief = "{x.dtype}, {m} x {n}, eps {eps}",
    .scope = Scope::kLocal,
    .dimensions = rows::kExtents,
    .operands = rows::kAdded,
    .attributes = rows::kEps,
    .conditions = rows::kHasColumns,
    .meaning = &rows::kAddedAndNormed,
    .free = "m",
    .summary =
        "total[i, j] = x[i, j] + residual[i, j], and y[i, j] = total[i, j] * rstd[i] * weight[j], "
        "where rstd[i] = 1 / sqrt(mean over j of total[i, j]^2 + eps): in one pass. The total is "
        "rounded to its type before it is normalised, as if it had been read again; the gradient "
        "of y is rmsnorm's, by the total.",
    .source = rows::kSource};

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_ADD_RMSNORM_H_
