// What a GEMM kernel is inside: a record of functions, one per instruction set and type.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_KERNEL_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_KERNEL_H_

#include "lib/exec/cpu/tile/gemm.h"

namespace sk::cpu {

// Of every kernel, so that tiles and partials of all kernels line up.
constexpr int64_t kGemmColumnUnit = kGemmPanelColumns;

// A thread's scratch: packed rows of A, then sums between chunks of k, then staging. Kernels choose
// their blocks to fit.
constexpr size_t kGemmScratchABytes = size_t(1) << 20;
constexpr size_t kGemmScratchSumBytes = size_t(1) << 20;
constexpr size_t kGemmScratchStageBytes = size_t(1) << 17;
constexpr size_t kGemmScratchBytes =
    kGemmScratchABytes + kGemmScratchSumBytes + kGemmScratchStageBytes;

struct GemmKernel {
  const char* name;
  DType dtype;
  size_t sum_bytes;      // Of one accumulator.
  int64_t rows_quantum;  // Rows of the register tile.
  int64_t rows_max;      // A block of A that stays in the second-level cache.
  // B takes so many bytes per column, padded to the unit, for every so many rows begun. Numbers,
  // not a function: that one would need its instruction set to be called.
  int64_t packed_rows, packed_bytes;
  void (*pack_b)(const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n, void* packed,
                 int64_t col0, int64_t col1);
  void (*tile)(const GemmTileArgs& args, char* scratch);
};

extern const GemmKernel kGemmF32Portable, kGemmF64Portable, kGemmBf16Portable, kGemmF16Portable;
#if defined(__x86_64__)
extern const GemmKernel kGemmF32Avx2, kGemmF64Avx2, kGemmBf16Avx2, kGemmF16Avx2;
extern const GemmKernel kGemmF32Avx512, kGemmF64Avx512, kGemmBf16Avx512, kGemmF16Avx512;
extern const GemmKernel kGemmBf16Avx512Bf16;
extern const GemmKernel kGemmBf16Amx;
#endif

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_KERNEL_H_
