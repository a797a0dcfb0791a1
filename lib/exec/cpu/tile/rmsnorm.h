// Root-mean-square normalisation of rows, forward and backward.
//
//   rstd_i = 1 / sqrt(mean over j of x_ij^2 + eps)
//   y_ij   = x_ij * rstd_i * w_j
//   dx_ij  = rstd_i * (dy_ij w_j - x_ij rstd_i^2 * mean over k of dy_ik w_k x_ik)
//   dw_j   = sum over i of dy_ij x_ij rstd_i
//
// Computed in f32, of f64 in f64, and rounded once. Sums have one order for an instruction set,
// whatever part of the rows (of dw: of the columns) a call has: that of a row by lanes; that of dw
// row by row in blocks of kRmsnormBlockRows, then block by block.
// Source: B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, 2019.
#ifndef SK_LIB_EXEC_CPU_TILE_RMSNORM_H_
#define SK_LIB_EXEC_CPU_TILE_RMSNORM_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/exec/cpu/tile/store_hint.h"
#include "lib/op/dtype.h"

namespace sk::cpu {

constexpr size_t kRmsnormBlockRows = 64;

// Pitches in bytes. Rows are aligned to their elements. `out` may be `x` or `dy`, else it overlaps
// nothing.
struct RmsnormArgs {
  const void *x = nullptr, *dy = nullptr;
  const void* w = nullptr;     // Of `cols` elements; null where none is asked for.
  const void* rstd = nullptr;  // Of `rows` sums.
  void* out = nullptr;
  int64_t x_pitch = 0, dy_pitch = 0, out_pitch = 0;
  size_t rows = 0, cols = 0;
  double eps = 0;
  StoreHint hint = StoreHint::kNormal;
};
using RmsnormFn = void (*)(const RmsnormArgs& args);

enum class RmsnormWeight : uint8_t { kNone, kSame, kF32 };  // kSame: of x's type.

// y, of x's type. Null for types that are no floating ones.
RmsnormFn select_rmsnorm(DType dtype, RmsnormWeight weight, CpuIsa isa);
// rstd, of the type of sums.
RmsnormFn select_rms(DType dtype, CpuIsa isa);
// dx, of x's type, as dy is.
RmsnormFn select_rmsnorm_dx(DType dtype, RmsnormWeight weight, CpuIsa isa);
// dw of the columns from `x`, `dy` and `out` on; of x's type, or f32.
RmsnormFn select_rmsnorm_dw(DType dtype, RmsnormWeight weight, CpuIsa isa);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_RMSNORM_H_
