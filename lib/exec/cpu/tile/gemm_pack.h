// Packing of A and B for the GEMM kernels (see isa_types.h for the rules).
//
// B: for each chunk of k, panels of kColumns columns; in a panel, for each item, its columns. The
// last panel is filled with zeros. A: its rows, kRowStride items apart.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_PACK_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_PACK_H_

#include "lib/exec/cpu/tile/gemm_kernel.h"
#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Where part `i` of `count` begins when they share `total` as evenly as whole numbers allow.
static inline int64_t share(int64_t total, int64_t count, int64_t i) {
  return total / count * i + min64(i, total % count);
}

template <typename K>
struct GemmPack {
  using Isa = typename K::Isa;
  using In = typename K::In;
  using Elem = typename In::Elem;  // As in memory.
  using Item = typename K::Item;
  static constexpr int64_t kColumns = K::kVectors * int64_t(Isa::kBytes / sizeof(typename K::Sum));
  static constexpr bool kPairs = K::kElementsPerItem == 2;
  static constexpr int64_t kStageItems = 128;  // Of a column of B, gathered at a time.
  // Rows a line beyond a power of two apart: they fall into different sets of the caches.
  static constexpr int64_t kRowStride = K::kItemsMax + 64 / int64_t(sizeof(Item));

  static int64_t items_of(int64_t k) { return ceil_div(k, K::kElementsPerItem); }
  static int64_t padded(int64_t n) { return ceil_div(n, kGemmColumnUnit) * kGemmColumnUnit; }
  // Chunks are even, and multiples of the register kernel's unrolling.
  static int64_t chunk_of(int64_t items) {
    if (items <= K::kItemsMax) return items;
    return ceil_div(ceil_div(items, ceil_div(items, K::kItemsMax)), 4) * 4;
  }

  // `count` items from `from`, whose elements are contiguous along k and end after `elements`.
  static void load_items(const Elem* from, int64_t elements, int64_t count, Item* to) {
    if constexpr (kPairs) {
      const int64_t whole = min64(count, elements / 2);
      __builtin_memcpy(to, from, size_t(whole) * sizeof(Item));
      if (whole < count) to[whole] = Item(from[2 * whole]);  // Odd k: paired with zero.
    } else {
      widen(from, count, to);
    }
  }

  static void widen(const Elem* from, int64_t count, Item* to) {
    constexpr int64_t kLanes = In::kLanes;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      store_vec(to + i, In::widen(load_vec<typename In::Mem>(from + i)));
    }
    if (i < count) {
      const auto last = In::widen(
          Isa::template load_part<typename In::Mem>(from + i, (count - i) * sizeof(Elem)));
      Isa::store_part(to + i, last, (count - i) * sizeof(Item));
    }
  }

  // `count` neighbours in the other direction: the item is one element from `from`, or one from
  // `from` with one from `next` (null at the end of an odd k).
  static void load_across(const Elem* from, const Elem* next, int64_t count, Item* to) {
    if constexpr (kPairs) {
      if (next == nullptr) {
        for (int64_t i = 0; i < count; ++i) to[i] = Item(from[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) to[i] = Item(from[i]) | (Item(next[i]) << 16);
      }
    } else {
      widen(from, count, to);
    }
  }

  // Rows [row, row + rows) of A, items [item0, item0 + items), to[row * kRowStride + item].
  static void pack_a(const GemmTileArgs& g, int64_t row, int64_t rows, int64_t item0, int64_t items,
                     Item* to) {
    const Elem* a = static_cast<const Elem*>(g.a);
    const int64_t k = item0 * K::kElementsPerItem;
    if (g.transpose_a) return pack_a_transposed(g, a + k * g.lda + row, rows, g.k - k, items, to);
    const Elem* from = a + row * g.lda + k;
    for (int64_t r = 0; r < rows; ++r) {
      load_items(from + r * g.lda, g.k - k, items, to + r * kRowStride);
    }
  }

  // The same from rows of A's transpose, which hold `elements` more elements along k.
  static void pack_a_transposed(const GemmTileArgs& g, const Elem* from, int64_t rows,
                                int64_t elements, int64_t items, Item* to) {
    constexpr int64_t kBlock = 16;  // Items gathered at a time, then turned.
    static_assert(K::kRows <= kBlock);
    alignas(64) Item block[kBlock * kBlock];
    for (int64_t i = 0; i < items; i += kBlock) {
      const int64_t count = min64(kBlock, items - i);
      for (int64_t s = 0; s < count; ++s) {
        const int64_t k = (i + s) * K::kElementsPerItem;
        const Elem* at = from + k * g.lda;
        load_across(at, kPairs && k + 1 < elements ? at + g.lda : nullptr, rows,
                    block + s * kBlock);
      }
      int64_t done = 0;
      if constexpr (requires { Isa::turn_16(block, kBlock, rows, to, kRowStride); }) {
        if (count == kBlock) done = Isa::turn_16(block, kBlock, rows, to + i, kRowStride);
      }
      for (int64_t r = done; r < rows; ++r) {
        for (int64_t s = 0; s < count; ++s) to[r * kRowStride + i + s] = block[s * kBlock + r];
      }
    }
  }

  static void pack_b(const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n,
                     void* packed, int64_t col0, int64_t col1) {
    const Elem* from = static_cast<const Elem*>(b);
    Item* to = static_cast<Item*>(packed);
    const int64_t items = items_of(k), chunk = chunk_of(items);
    const int64_t end = col1 == n ? padded(n) : col1;
    for (int64_t item0 = 0; item0 < items; item0 += chunk) {
      const int64_t count = min64(chunk, items - item0);
      for (int64_t col = col0; col < end; col += kColumns) {
        Item* panel = to + item0 * padded(n) + col * count;
        const int64_t cols = min64(kColumns, n - col);
        if (cols < kColumns) __builtin_memset(panel, 0, size_t(kColumns * count) * sizeof(Item));
        if (cols <= 0) continue;
        if (transpose_b) {
          pack_panel_transposed(from + col * ldb, ldb, k, item0, count, cols, panel);
        } else {
          pack_panel(from + col, ldb, k, item0, count, cols, panel);
        }
      }
    }
  }

  static void pack_panel(const Elem* from, int64_t ldb, int64_t k, int64_t item0, int64_t items,
                         int64_t cols, Item* to) {
    for (int64_t i = 0; i < items; ++i) {
      const int64_t row = (item0 + i) * K::kElementsPerItem;
      const Elem* at = from + row * ldb;
      load_across(at, kPairs && row + 1 < k ? at + ldb : nullptr, cols, to + i * kColumns);
    }
  }

  static void pack_panel_transposed(const Elem* from, int64_t ldb, int64_t k, int64_t item0,
                                    int64_t items, int64_t cols, Item* to) {
    Item staged[kStageItems];
    for (int64_t i = 0; i < items; i += kStageItems) {
      const int64_t count = min64(kStageItems, items - i);
      const int64_t row = (item0 + i) * K::kElementsPerItem;
      for (int64_t c = 0; c < cols; ++c) {
        load_items(from + c * ldb + row, k - row, count, staged);
        for (int64_t s = 0; s < count; ++s) to[(i + s) * kColumns + c] = staged[s];
      }
    }
  }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_PACK_H_
