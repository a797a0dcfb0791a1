// Operands in the layout of AMX tiles (see isa_types.h for the rules).
//
// A step is 32 elements of k. A: 32 rows as two tiles of 16 rows of 64 bytes. B: 32 columns as two
// tiles of 16 pairs of k by 16 columns, the two elements of a pair side by side. Both end in zeros
// where the matrices end. B is ordered by chunks of kStepsMax steps, in them by panels of 32
// columns, in those by steps.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_AMX_PACK_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_AMX_PACK_H_

#include "lib/exec/cpu/tile/gemm_pack.h"

namespace sk::cpu {

template <typename AmxIsa>
struct AmxPack {
  struct Items {  // As GemmPack sees them: pairs of bf16.
    using Isa = AmxIsa;
    using In = Bf16<AmxIsa>;
    using Item = uint32_t;
    using Sum = float;
    static constexpr int kElementsPerItem = 2;
    static constexpr int kVectors = 2;
    static constexpr int64_t kItemsMax = 256;
  };
  using Pairs = GemmPack<Items>;
  using Line = Vec<uint16_t, 64>;
  static constexpr int64_t kStepElements = 32;
  static constexpr int64_t kTileRows = 16;
  static constexpr int64_t kTileRowBytes = 64;
  static constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;
  static constexpr int64_t kStepBytes = 2 * kTileBytes;
  static constexpr int64_t kStepsMax = 16;  // A panel of A is then 32 KB.
  static constexpr int64_t kSide = 32;      // Rows of a panel of A, columns of one of B.

  static int64_t steps_of(int64_t k) { return ceil_div(k, kStepElements); }
  static int64_t padded(int64_t n) { return ceil_div(n, kSide) * kSide; }

  // Rows [row, row + rows) of A, rows <= 32, for `steps` steps; `stage` takes 2 KB.
  static void pack_a(const GemmTileArgs& g, int64_t row, int64_t rows, int64_t step0, int64_t steps,
                     char* panel, void* stage) {
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t k = (step0 + s) * kStepElements;
      if (g.transpose_a) {
        pack_a_step_transposed(g, row, rows, k, panel + s * kStepBytes, stage);
      } else {
        pack_a_step(g, row, rows, k, panel + s * kStepBytes);
      }
    }
  }

  static void pack_a_step(const GemmTileArgs& g, int64_t row, int64_t rows, int64_t k, char* to) {
    const uint16_t* from = static_cast<const uint16_t*>(g.a) + row * g.lda + k;
    const int64_t bytes = 2 * (g.k - k);
    for (int64_t r = 0; r < kSide; ++r) {
      Line line = {};
      if (r < rows) {
        line = bytes >= kTileRowBytes
                   ? load_vec<Line>(from + r * g.lda)
                   : AmxIsa::template load_part<Line>(from + r * g.lda, size_t(bytes));
      }
      store_vec(to + r * kTileRowBytes, line);  // Tile after tile: row 16 opens the second.
    }
  }

  static void pack_a_step_transposed(const GemmTileArgs& g, int64_t row, int64_t rows, int64_t k,
                                     char* to, void* stage) {
    const uint16_t* from = static_cast<const uint16_t*>(g.a) + k * g.lda + row;
    uint32_t* pairs = static_cast<uint32_t*>(stage);
    gather_pairs(from, g.lda, g.k - k, rows, pairs);
    for (int64_t h = 0; h < 2; ++h) {
      AmxIsa::turn_16(pairs + h * kTileRows, kSide, kTileRows,
                      reinterpret_cast<uint32_t*>(to + h * kTileBytes), kTileRows);
    }
  }

  // pairs[16][32]: of 32 rows of length `pitch` from `from`, rows 2p and 2p + 1 in pair p. Zeros
  // from row `rows_left` and column `columns` on.
  static void gather_pairs(const uint16_t* from, int64_t pitch, int64_t rows_left, int64_t columns,
                           uint32_t* pairs) {
    __builtin_memset(pairs, 0, kStepBytes);
    for (int64_t p = 0; 2 * p < min64(rows_left, kStepElements); ++p) {
      const uint16_t* first = from + 2 * p * pitch;
      Pairs::load_across(first, 2 * p + 1 < rows_left ? first + pitch : nullptr, columns,
                         pairs + p * kSide);
    }
  }

  static void pack_b(const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n,
                     void* packed, int64_t col0, int64_t col1) {
    const uint16_t* from = static_cast<const uint16_t*>(b);
    const int64_t steps = steps_of(k), panels = padded(n) / kSide;
    alignas(64) uint32_t pairs[kTileRows * kSide];
    for (int64_t step0 = 0; step0 < steps; step0 += kStepsMax) {
      const int64_t count = min64(kStepsMax, steps - step0);
      for (int64_t col = col0; col < col1; col += kSide) {
        const int64_t cols = min64(kSide, n - col);
        char* to = static_cast<char*>(packed) + (step0 * panels + col / kSide * count) * kStepBytes;
        for (int64_t s = 0; s < count; ++s, to += kStepBytes) {
          const int64_t at = (step0 + s) * kStepElements;
          if (transpose_b) {
            gather_pairs_transposed(from + col * ldb + at, ldb, k - at, cols, pairs);
          } else {
            gather_pairs(from + at * ldb + col, ldb, k - at, cols, pairs);
          }
          for (int64_t p = 0; p < kTileRows; ++p) {
            __builtin_memcpy(to + p * kTileRowBytes, pairs + p * kSide, kTileRowBytes);
            __builtin_memcpy(to + kTileBytes + p * kTileRowBytes, pairs + p * kSide + kTileRows,
                             kTileRowBytes);
          }
        }
      }
    }
  }

  // The same pairs from `columns` rows of `elements` contiguous elements.
  static void gather_pairs_transposed(const uint16_t* from, int64_t pitch, int64_t elements,
                                      int64_t columns, uint32_t* pairs) {
    __builtin_memset(pairs, 0, kStepBytes);
    const int64_t count = min64(kTileRows, ceil_div(elements, 2));
    for (int64_t c = 0; c < columns; ++c) {
      uint32_t items[kTileRows];
      Pairs::load_items(from + c * pitch, elements, count, items);
      for (int64_t p = 0; p < count; ++p) pairs[p * kSide + c] = items[p];
    }
  }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_AMX_PACK_H_
