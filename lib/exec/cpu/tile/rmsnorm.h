// Root-mean-square normalisation of rows, forward and backward.
//
//   rstd_i = 1 / sqrt(mean over j of x_ij^2 + eps)
//   y_ij   = x_ij * rstd_i * w_j
//            of x_ij + r_ij, as that is stored, where there is a residual r
//   dx_ij  = rstd_i * (dy_ij w_j - x_ij rstd_i^2 * mean over k of dy_ik w_k x_ik)
//   s_bj   = sum over the rows i of block b of dy_ij x_ij rstd_i
//
// Computed in f32, of f64 in f64, and rounded once. Sums have one order for an instruction set,
// whatever part of the rows a call has: that of a row by lanes, that of a block row after row.
// Source: B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, 2019.
#ifndef SK_LIB_EXEC_CPU_TILE_RMSNORM_H_
#define SK_LIB_EXEC_CPU_TILE_RMSNORM_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/exec/cpu/tile/store_hint.h"
#include "lib/op/dtype.h"

namespace sk::cpu {

// Pitches in bytes. Rows are aligned to their elements. `y` may be `x`, else what is written
// overlaps nothing but that `sum` may be `residual`.
struct RmsnormArgs {
  const void* x = nullptr;
  const void* residual = nullptr;  // Null: nothing is added, and there is no sum.
  void* sum = nullptr;
  const void* w = nullptr;  // Of `cols` elements; null where none is asked for.
  void* y = nullptr;
  void* rstd = nullptr;  // Of `rows` sums, or null.
  int64_t x_pitch = 0, y_pitch = 0, residual_pitch = 0, sum_pitch = 0;
  size_t rows = 0, cols = 0;
  double eps = 0;
  StoreHint hint = StoreHint::kNormal;
};
using RmsnormFn = void (*)(const RmsnormArgs& args);

struct RmsnormBackwardArgs {
  const void *x = nullptr, *dy = nullptr;
  const void* w = nullptr;
  const void* rstd = nullptr;
  void* dx = nullptr;
  void* sums = nullptr;  // Of each `block` rows, the first on, a row; null where none is asked for.
  int64_t x_pitch = 0, dy_pitch = 0, dx_pitch = 0, sums_pitch = 0;
  size_t rows = 0, cols = 0, block = 1;
  StoreHint hint = StoreHint::kNormal;
};
using RmsnormBackwardFn = void (*)(const RmsnormBackwardArgs& args);

enum class RmsnormWeight : uint8_t { kNone, kSame, kF32 };  // kSame: of x's type.

// Null for types that are no floating ones.
RmsnormFn select_rmsnorm(DType dtype, RmsnormWeight weight, CpuIsa isa);
RmsnormBackwardFn select_rmsnorm_backward(DType dtype, RmsnormWeight weight, CpuIsa isa);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_RMSNORM_H_
