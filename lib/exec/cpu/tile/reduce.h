// Element-wise reductions of several inputs into several outputs, in one pass over memory.
#ifndef SK_LIB_EXEC_CPU_TILE_REDUCE_H_
#define SK_LIB_EXEC_CPU_TILE_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/exec/cpu/tile/store_hint.h"
#include "lib/op/dtype.h"

namespace sk::cpu {

// out[j][i] = op over in[0][i], in[1][i], ... in this order, for every j; in_count >= 1.
//
// bf16 and f16 are reduced in f32 and rounded once; kAvg divides the sum by in_count before the
// rounding; integers wrap; kMin and kMax give NaN where any input has one. An output may be one of
// the inputs (the same pointer) but overlap none otherwise. Pointers need the alignment of one
// element. Any thread. The same bits come out on every CpuIsa (NaN payloads aside).
using ReduceFn = void (*)(const void* const* in, int in_count, void* const* out, int out_count,
                          size_t elements, StoreHint hint);

// Null for what has no meaning: kAvg of integers, in_count < 1, out_count < 1. The function may be
// called with these counts only. Resolve once where small sizes matter.
ReduceFn select_reduce(DType dtype, RedOp op, int in_count, int out_count, CpuIsa isa);
ReduceFn select_reduce(DType dtype, RedOp op, int in_count, int out_count);

// The same, resolved on every call. `op` must have a meaning for `dtype`.
void reduce(DType dtype, RedOp op, const void* const* in, int in_count, void* const* out,
            int out_count, size_t elements, StoreHint hint);

constexpr int kReduceStridedPointersMax = 64;  // Inputs, and outputs.

// Rows with a pitch in bytes per pointer (not read with rows <= 1). `in_dtype` equals `out_dtype`;
// or they are partial sums and what they end as, kF32 to kBF16 or kF16, kF64 to kF32, rounded once;
// or elements and what they are summed in, kBF16 or kF16 to kF32. Of two types an output may be no
// input.
struct ReduceStridedArgs {
  DType in_dtype = DType::kF32;
  DType out_dtype = DType::kF32;
  RedOp op = RedOp::kSum;
  const void* const* in = nullptr;
  const int64_t* in_pitch = nullptr;
  int in_count = 0;
  void* const* out = nullptr;
  const int64_t* out_pitch = nullptr;
  int out_count = 0;
  size_t rows = 0;
  size_t row_elements = 0;
  StoreHint hint = StoreHint::kNormal;
};
void reduce_strided(const ReduceStridedArgs& args);
void reduce_strided(const ReduceStridedArgs& args, CpuIsa isa);

// Finds out what reduces on this machine; else the first one does.
void choose_reductions();

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_REDUCE_H_
