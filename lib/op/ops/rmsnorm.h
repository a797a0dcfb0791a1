// Root-mean-square normalisation of rows, forward and backward, of each rank alone.
#ifndef SK_LIB_OP_OPS_RMSNORM_H_
#define SK_LIB_OP_OPS_RMSNORM_H_

#include "lib/op/schema.h"

namespace sk::ops {
namespace rows {

inline constexpr Dimension kExtents[] = {{"m", "rows"}, {"n", "columns"}};

inline constexpr OperandSchema kX = {.name = "x",
                                     .role = Role::kIn,
                                     .types = "float",
                                     .shape = "m, n",
                                     .storage = Storage::kRows},
                               kY = {.name = "y",
                                     .role = Role::kOut,
                                     .types = "x",
                                     .shape = "m, n",
                                     .storage = Storage::kRows,
                                     .alias = "x"},
                               kDy = {.name = "dy",
                                      .role = Role::kIn,
                                      .types = "x",
                                      .shape = "m, n",
                                      .storage = Storage::kRows},
                               kDx = {.name = "dx",
                                      .role = Role::kOut,
                                      .types = "x",
                                      .shape = "m, n",
                                      .storage = Storage::kRows};
inline constexpr OperandSchema kWeight = {.name = "weight",
                                          .role = Role::kIn,
                                          .types = "x|f32",
                                          .shape = "n",
                                          .optional = true},
                               kDweight = {.name = "dweight",
                                           .role = Role::kOut,
                                           .types = "x|f32",
                                           .shape = "n",
                                           .optional = true},
                               kRstd = {.name = "rstd",
                                        .role = Role::kIn,
                                        .types = "accumulator(x)",
                                        .shape = "m",
                                        .doc = "as rmsnorm left it"},
                               kRstdOut = {.name = "rstd",
                                           .role = Role::kOut,
                                           .types = "accumulator(x)",
                                           .shape = "m",
                                           .optional = true,
                                           .doc =
                                               "what each row was multiplied by, for the "
                                               "gradient"};

inline constexpr OperandSchema kForward[] = {kX, kY, kWeight, kRstdOut};
inline constexpr OperandSchema kBackward[] = {kX, kDy, kRstd, kDx, kWeight, kDweight};

inline constexpr Attribute kEps[] = {{.name = "eps",
                                      .kind = AttributeKind::kFloat,
                                      .lowest = 0,
                                      .suggested = "1e-5",
                                      .doc = "added to the mean of squares, in the type of sums"}};

inline constexpr Condition kHasColumns[] = {{"n >= 1", "rows have one element at least"}};

inline constexpr Steps kNormed = steps_of(
    "y@r[i, j] = rmsnorm[j](x@r[i, j], weight@r[j], eps = eps); "
    "rstd@r[i] = rms[j](x@r[i, j], eps = eps)");
// Of so many rows the gradient by the weight is summed row after row, then that of all such blocks.
// Of 32 large arrays take 3 % less, but 32 rows of 4096 then have one worker: 27 us for 10.
inline constexpr int64_t kBlockRows = 16;
inline constexpr InnerArray kOfBlocks[] = {{"sums", "accumulator(x)", "cdiv(m, 16), n"}};
inline constexpr Steps kGradients = steps_of(
    "dx@r[i, j] = rmsnorm_dx[j](dy@r[i, j], x@r[i, j], rstd@r[i], weight@r[j]); "
    "sums@r[i // 16, j] = sum(i uncut) mul(dy@r[i, j], x@r[i, j], rstd@r[i]); "
    "dweight@r[j] = sum(b uncut) sums@r[b, j]");

inline constexpr char kSource[] =
    "B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.";

}  // namespace rows

inline constexpr Schema kRmsnorm = {
    .id = OpKind::kRmsnorm,
    .name = "rmsnorm",
    .brief = "{x.dtype}, {m} x {n}, eps {eps}",
    .scope = Scope::kLocal,
    .dimensions = rows::kExtents,
    .operands = rows::kForward,
    .attributes = rows::kEps,
    .conditions = rows::kHasColumns,
    .meaning = &rows::kNormed,
    .free = "m",
    .summary =
        "y[i, j] = x[i, j] * rstd[i] * weight[j], where rstd[i] = 1 / sqrt(mean over j of "
        "x[i, j]^2 + eps). Computed in f32, of f64 in f64, and rounded once; without a "
        "weight it is 1.",
    .source = rows::kSource};
inline constexpr Schema kRmsnormBackward = {
    .id = OpKind::kRmsnormBackward,
    .name = "rmsnorm_backward",
    .brief = "{x.dtype}, {m} x {n}",
    .scope = Scope::kLocal,
    .dimensions = rows::kExtents,
    .operands = rows::kBackward,
    .conditions = rows::kHasColumns,
    .arrays = rows::kOfBlocks,
    .meaning = &rows::kGradients,
    .free = "m",
    .summary =
        "The gradients of rmsnorm: dx[i, j] = rstd[i] * (dy[i, j] * weight[j] - x[i, j] * "
        "rstd[i]^2 * mean over k of dy[i, k] * weight[k] * x[i, k]), dweight[j] = sum over "
        "i of dy[i, j] * x[i, j] * rstd[i]. Sums have one order, whatever the number of "
        "workers.",
    .source = rows::kSource};

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_RMSNORM_H_
