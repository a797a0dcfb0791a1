// Tiles of C = A * B on one thread, with what a fused all-reduce needs at the end of each tile.
//
// All matrices are row-major. A is read where it lies; B is packed once. Sums are kept in the
// accumulator type: f32, for f64 operands f64. The bits of an element depend on its row of A, its
// column of B and the CpuIsa only, never on how the problem was cut into tiles.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/exec/cpu/tile/store_hint.h"
#include "lib/op/dtype.h"

namespace sk::cpu {

struct GemmKernel;  // One per instruction set and type; immutable, static.

// For kF32, kF64, kBF16, kF16; null for integers.
const GemmKernel* select_gemm(DType dtype);
const GemmKernel* select_gemm(DType dtype, CpuIsa isa);
const char* gemm_kernel_name(const GemmKernel* kernel);  // "f32 avx512", for logs and benchmarks.

// Columns come in units: tiles and packing tasks start at multiples of this.
int64_t gemm_column_unit(const GemmKernel* kernel);

// B of shape [k, n] ([n, k] with transpose_b) with leading stride `ldb` in elements. `packed` is
// 64-byte aligned. One call packs columns [col0, col1), so that several tasks may share the work:
// col0 is a multiple of the unit, col1 too unless it is n. All of `packed` is written once all
// columns are.
size_t packed_bytes(const GemmKernel* kernel, int64_t k, int64_t n);
void pack_b(const GemmKernel* kernel, const void* b, int64_t ldb, bool transpose_b, int64_t k,
            int64_t n, void* packed, int64_t col0, int64_t col1);

// The tile to give to one task so that it runs at full speed; `n` is a multiple of the unit. At
// least `parts` tiles come out where the problem is large enough to be worth dividing.
struct GemmTiling {
  int64_t m = 0;
  int64_t n = 0;
};
GemmTiling gemm_tiling(const GemmKernel* kernel, int64_t m, int64_t n, int64_t k, int parts);

struct GemmTileArgs {
  const void* a = nullptr;   // Element (0, 0) of the whole A.
  int64_t lda = 0;           // In elements.
  bool transpose_a = false;  // A holds [k, m].
  const void* packed_b = nullptr;
  int64_t m = 0, n = 0, k = 0;  // The whole problem. k == 0 gives zeros.
  int64_t row0 = 0, rows = 0;   // This tile.
  int64_t col0 = 0, cols = 0;   // col0 is a multiple of the unit.

  enum class Epilogue : uint8_t {
    kStore,    // c[j] = product, for every j.
    kPartial,  // partial = product.
    kReduce,   // c[j] = sum over ranks, in rank order, rounded once, for every j.
  };
  Epilogue epilogue = Epilogue::kStore;

  // kStore, kReduce: element (row0, col0) of each C. All have leading stride `ldc` (in elements)
  // and `c_dtype`: A's type or kF32. c_count >= 1.
  void* const* c = nullptr;
  int c_count = 0;
  int64_t ldc = 0;
  DType c_dtype = DType::kF32;
  StoreHint hint = StoreHint::kNormal;

  // kPartial: partial_bytes() bytes, 64-byte aligned. The layout is the same in every kernel of one
  // dtype, so ranks with different processors agree: columns in panels of 32, each panel `rows`
  // rows of 32 accumulators.
  void* partial = nullptr;

  // kReduce: the same tile's partials of all ranks; null at `self` stands for this product.
  const void* const* partials = nullptr;
  int partial_count = 0;
  int self = 0;
};

constexpr int64_t kGemmPanelColumns = 32;  // Of a partial tile.

size_t partial_bytes(const GemmKernel* kernel, int64_t rows, int64_t cols);

// Any thread. Uses scratch memory of the calling thread, of constant size, allocated by the first
// call; a worker that must not run out of memory there calls gemm_reserve_scratch() first.
void gemm_tile(const GemmKernel* kernel, const GemmTileArgs& args);
Status gemm_reserve_scratch();

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_H_
