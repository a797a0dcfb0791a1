#include "lib/exec/cpu/tile/gemm.h"

#include <algorithm>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "lib/exec/cpu/tile/gemm_kernel.h"

namespace sk::cpu {
namespace {

constexpr size_t kHugePageBytes = size_t(2) << 20;

constexpr size_t kScratchBytes =
    (kGemmScratchBytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
constexpr std::align_val_t kScratchAlign{kHugePageBytes};

struct FreeScratch {
  void operator()(void* p) const { ::operator delete(p, kScratchAlign); }
};
thread_local std::unique_ptr<void, FreeScratch> tls_scratch;

void keep_scratch(void* memory) {
  tls_scratch.reset(memory);
#if defined(__linux__)
  // One page for all of it: packed rows of A are read across thousands of small ones otherwise.
  // Only advice: refused, it costs speed alone.
  static_cast<void>(madvise(memory, kScratchBytes, MADV_HUGEPAGE));
#endif
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace

const GemmKernel* select_gemm(DType dtype, CpuIsa isa) {
#if defined(__x86_64__)
  const bool avx512 = isa >= CpuIsa::kAvx512, avx2 = isa >= CpuIsa::kAvx2;
  switch (dtype) {
    case DType::kF32:
      return avx512 ? &kGemmF32Avx512 : avx2 ? &kGemmF32Avx2 : &kGemmF32Portable;
    case DType::kF64:
      return avx512 ? &kGemmF64Avx512 : avx2 ? &kGemmF64Avx2 : &kGemmF64Portable;
    case DType::kF16:
      return avx512 ? &kGemmF16Avx512 : avx2 ? &kGemmF16Avx2 : &kGemmF16Portable;
    case DType::kBF16:
      if (isa >= CpuIsa::kAmx) return &kGemmBf16Amx;
      if (isa >= CpuIsa::kAvx512Bf16) return &kGemmBf16Avx512Bf16;
      return avx512 ? &kGemmBf16Avx512 : avx2 ? &kGemmBf16Avx2 : &kGemmBf16Portable;
    case DType::kI32:
    case DType::kI64:
      return nullptr;
  }
#else
  static_cast<void>(isa);
  switch (dtype) {
    case DType::kF32:
      return &kGemmF32Portable;
    case DType::kF64:
      return &kGemmF64Portable;
    case DType::kF16:
      return &kGemmF16Portable;
    case DType::kBF16:
      return &kGemmBf16Portable;
    case DType::kI32:
    case DType::kI64:
      return nullptr;
  }
#endif
  return nullptr;
}

const GemmKernel* select_gemm(DType dtype) { return select_gemm(dtype, cpu_isa()); }

const char* gemm_kernel_name(const GemmKernel* kernel) { return kernel->name; }
int64_t gemm_column_unit(const GemmKernel*) { return kGemmColumnUnit; }

size_t packed_bytes(const GemmKernel* kernel, int64_t k, int64_t n) {
  return size_t(ceil_div(k, kernel->packed_rows) * round_up(n, kGemmColumnUnit) *
                kernel->packed_bytes);
}

void pack_b(const GemmKernel* kernel, const void* b, int64_t ldb, bool transpose_b, int64_t k,
            int64_t n, void* packed, int64_t col0, int64_t col1) {
  if (k == 0 || col0 >= col1) return;
  kernel->pack_b(b, ldb, transpose_b, k, n, packed, col0, col1);
}

// A task takes as many columns as it can: its rows of A are copied once per task. Rows are divided
// first, down to a few register tiles; then columns.
GemmTiling gemm_tiling(const GemmKernel* kernel, int64_t m, int64_t n, int64_t k, int parts) {
  static_cast<void>(k);
  const int64_t unit = kGemmColumnUnit, quantum = kernel->rows_quantum;
  if (m <= 0 || n <= 0) return {std::max<int64_t>(m, 1), unit};
  constexpr int64_t kRowsMost = 256, kColumnsMost = 1024, kUnevenPart = 64;
  const int64_t rows_least = 4 * quantum, columns_least = 4 * unit;
  // Plans are made and judged task by task, so long products have larger tiles instead.
  constexpr int64_t kTilesMost = 8192;
  int64_t column_tiles = std::min(ceil_div(n, kColumnsMost), kTilesMost);
  int64_t row_tiles = std::min(ceil_div(m, kRowsMost), kTilesMost / column_tiles);
  while (row_tiles * column_tiles < parts) {
    if (m >= (row_tiles + 1) * rows_least) {
      ++row_tiles;
    } else if (n >= (column_tiles + 1) * columns_least) {
      ++column_tiles;
    } else {
      break;
    }
  }
  // Even tiles, for ranks and workers wait for each other. Whole register tiles where that leaves
  // as many, the last one hardly smaller.
  GemmTiling tiling = {ceil_div(m, row_tiles), round_up(ceil_div(n, column_tiles), unit)};
  const int64_t whole = std::min(m, round_up(tiling.m, quantum));
  if (row_tiles == 1 || whole * row_tiles - m <= whole / kUnevenPart) tiling.m = whole;
  return tiling;
}

size_t partial_bytes(const GemmKernel* kernel, int64_t rows, int64_t cols) {
  return size_t(rows * round_up(cols, kGemmPanelColumns)) * kernel->sum_bytes;
}

Status gemm_reserve_scratch() {
  if (tls_scratch != nullptr) return Status();
  void* memory = ::operator new(kScratchBytes, kScratchAlign, std::nothrow);
  if (memory == nullptr) {
    return error(SK_ERR_NO_MEMORY, "no {} bytes of scratch memory for matrix products",
                 kScratchBytes);
  }
  keep_scratch(memory);
  return Status();
}

void gemm_tile(const GemmKernel* kernel, const GemmTileArgs& args) {
  if (args.rows <= 0 || args.cols <= 0) return;
  if (tls_scratch == nullptr) keep_scratch(::operator new(kScratchBytes, kScratchAlign));
  kernel->tile(args, static_cast<char*>(tls_scratch.get()));
}

}  // namespace sk::cpu
