// One GEMM tile, as a template over a register kernel (see isa_types.h for the rules).
//
// Blocks: a block of A rows is packed into panels of kRows rows and stays in the second-level
// cache; a panel of B (kColumns columns of one chunk of k) is read by all row panels in turn while
// the next one is prefetched. Every element is one chain of multiply-adds per chunk of k, and the
// chunks' sums, which wait in scratch, are added in their order: whatever the tile, and with
// roundings that grow with the chunk and the number of chunks instead of with k.
//
// Along k both operands are sequences of items: one element, or a pair of bf16 in 32 bits.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_CORE_H_

#include "lib/exec/cpu/tile/gemm_finish.h"
#include "lib/exec/cpu/tile/gemm_kernel.h"
#include "lib/exec/cpu/tile/gemm_pack.h"

namespace sk::cpu {

// `K` has: Isa; Sum, the accumulator; In, the element type of A and B in memory (an isa_types.h
// type); Item; kElementsPerItem; kRows, kVectors: the register tile; kItemsMax: of a chunk of k;
// madd(sum, a, b).

constexpr int64_t kSumStride = kGemmPanelColumns;
// The result's lines are asked for a row per four items, late: B streams through the first-level
// cache and would push them out. The last four-item steps leave time for the last lines to come.
constexpr int64_t kLeadQuads = 6;

// out[kR][columns] = before + A panel * B panel. `before` (stride kSumStride) may be null.
template <typename K, int kR, int kV>
void register_tile(const typename K::Item* a, const typename K::Item* b, int64_t items,
                   const typename K::Sum* before, typename K::Sum* out, int64_t out_stride,
                   const Ahead& ahead) {
  using V = Vec<typename K::Sum, K::Isa::kBytes>;
  using B = Vec<typename K::Item, K::Isa::kBytes>;
  constexpr int kLanes = K::Isa::kBytes / sizeof(typename K::Sum);
  constexpr int kBStride = K::kVectors * kLanes;
  V sum[kR][kV];
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[r][v] = V{};
  }
  const auto step = [&](const typename K::Item* a_item, const typename K::Item* b_items)
      __attribute__((always_inline)) {
    B column[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) column[v] = load_vec<B>(b_items + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kR; ++r) {
      const B row =
          a_item[r * GemmPack<K>::kRowStride] - B{};  // Broadcast: x - 0 is x, for -0 too.
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) sum[r][v] = K::madd(sum[r][v], row, column[v]);
    }
  };
  const char* panel_at = ahead.panel;
  const char* at = ahead.rows;
  const int64_t apart = ahead.apart, advance = ahead.step, wrap = ahead.wrap;
  int64_t write_at = 0, read_at = 0;
  int64_t i = 0;
  for (; i + 4 <= items; i += 4) {
    __builtin_prefetch(panel_at, 0, 2);
    panel_at += 64;
    __builtin_prefetch(at, 0, 2);
    __builtin_prefetch(at + apart, 0, 2);
    __builtin_prefetch(at + 2 * apart, 0, 2);
    __builtin_prefetch(at + 3 * apart, 0, 2);
    at += (i & 12) == 12 ? wrap : advance;
    const int64_t left = items - i;
    if (left <= 4 * (kR + kLeadQuads) && left > 4 * kLeadQuads) {
      __builtin_prefetch(ahead.write[0] + write_at, 1);
      __builtin_prefetch(ahead.write[0] + write_at + 64, 1);
      __builtin_prefetch(ahead.write[0] + write_at + ahead.write_last, 1);
      __builtin_prefetch(ahead.write[1] + write_at, 1);
      __builtin_prefetch(ahead.write[1] + write_at + 64, 1);
      __builtin_prefetch(ahead.write[1] + write_at + ahead.write_last, 1);
      __builtin_prefetch(ahead.read + read_at);
      __builtin_prefetch(ahead.read + read_at + 64);
      write_at += ahead.write_pitch;
      read_at += ahead.read_pitch;
    }
    step(a, b);
    step(a + 1, b + kBStride);
    step(a + 2, b + 2 * kBStride);
    step(a + 3, b + 3 * kBStride);
    a += 4;
    b += 4 * kBStride;
  }
  for (; i < items; ++i) {
    step(a, b);
    a += 1;
    b += kBStride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      if (before != nullptr) sum[r][v] += load_vec<V>(before + r * kSumStride + v * kLanes);
      store_vec(out + r * out_stride + v * kLanes, sum[r][v]);
    }
  }
}

template <typename K>
using RegisterTile = void (*)(const typename K::Item*, const typename K::Item*, int64_t,
                              const typename K::Sum*, typename K::Sum*, int64_t, const Ahead&);

// By rows - 1, then by vectors - 1 (only one and kVectors are used).
template <typename K>
struct RegisterTiles {
  RegisterTile<K> narrow[K::kRows];
  RegisterTile<K> full[K::kRows];
};

template <typename K, int kR>
constexpr void fill_register_tiles(RegisterTiles<K>& tiles) {
  tiles.narrow[kR - 1] = &register_tile<K, kR, 1>;
  tiles.full[kR - 1] = &register_tile<K, kR, K::kVectors>;
  if constexpr (kR > 1) fill_register_tiles<K, kR - 1>(tiles);
}

template <typename K>
constexpr RegisterTiles<K> make_register_tiles() {
  RegisterTiles<K> tiles{};
  fill_register_tiles<K, K::kRows>(tiles);
  return tiles;
}

template <typename K>
constexpr RegisterTiles<K> kRegisterTiles = make_register_tiles<K>();

template <typename K>
struct GemmCore {
  using Sum = typename K::Sum;
  using Item = typename K::Item;
  using Pack = GemmPack<K>;
  using Finish = GemmFinish<typename K::Isa, Sum>;
  static constexpr int64_t kLanes = K::Isa::kBytes / sizeof(Sum);
  static constexpr int64_t kColumns = K::kVectors * kLanes;
  static constexpr int64_t kRowsMax = K::kRowsMax;
  static constexpr int64_t kColumnsMax =
      int64_t(kGemmScratchSumBytes / sizeof(Sum)) / kRowsMax / kSumStride * kSumStride;
  static_assert(kSumStride % kColumns == 0);
  static_assert(kRowsMax * Pack::kRowStride * sizeof(Item) <= kGemmScratchABytes);

  struct Block {        // One block of the tile, for one chunk of k.
    int64_t row, rows;  // In the tile.
    int64_t col, cols;
    int64_t item0, items;
    bool first, last;
  };

  static void tile(const GemmTileArgs& g, char* scratch) {
    for (int64_t col = 0; col < g.cols; col += kColumnsMax) {
      const int64_t cols = min64(kColumnsMax, g.cols - col);
      const int64_t row_blocks = ceil_div(g.rows, kRowsMax);
      for (int64_t i = 0; i < row_blocks; ++i) {
        const int64_t row = share(g.rows, row_blocks, i);
        const int64_t rows = share(g.rows, row_blocks, i + 1) - row;
        block_of_rows(g, scratch, row, rows, col, cols);
      }
    }
    if (g.hint == StoreHint::kNonTemporal) K::Isa::stream_fence();
  }

  static void block_of_rows(const GemmTileArgs& g, char* scratch, int64_t row, int64_t rows,
                            int64_t col, int64_t cols) {
    const int64_t items = Pack::items_of(g.k);
    const int64_t chunk = Pack::chunk_of(items);
    int64_t item0 = 0;
    do {  // k == 0 is one empty chunk: it stores zeros.
      const int64_t count = min64(chunk, items - item0);
      const Block block = {row, rows, col, cols, item0, count, item0 == 0, item0 + count == items};
      run_chunk(g, scratch, block);
      item0 += count;
    } while (item0 < items);
  }

  static void run_chunk(const GemmTileArgs& g, char* scratch, const Block& block) {
    Item* a = reinterpret_cast<Item*>(scratch);
    Sum* sums = reinterpret_cast<Sum*>(scratch + kGemmScratchABytes);
    const int64_t panels = ceil_div(block.rows, K::kRows);
    const Item* b = static_cast<const Item*>(g.packed_b) + block.item0 * Pack::padded(g.n);
    for (int64_t col = 0; col < block.cols; col += kColumns) {
      const Item* panel = b + (g.col0 + block.col + col) * block.items;
      const char* next_panel = reinterpret_cast<const char*>(panel + kColumns * block.items);
      for (int64_t i = 0; i < panels; ++i) {
        const int64_t row = share(block.rows, panels, i);
        const int64_t rows = share(block.rows, panels, i + 1) - row;
        Ahead ahead = {};
        ahead.panel = next_panel + i * (block.items / 4) * 64;
        ahead.rows = ahead.panel;
        if (col == 0) {
          Pack::pack_a(g, g.row0 + block.row + row, rows, block.item0, block.items,
                       a + row * Pack::kRowStride);
          look_at_rows(g, block, row + rows, ahead);
        } else if (col + kColumns >= block.cols && i + 1 == panels) {
          look_at_rows(g, block, block.rows, ahead);
        }
        one_tile(g, block, row, rows, col, a + row * Pack::kRowStride, panel, sums, ahead);
      }
    }
  }

  // The rows of A to be packed next, should there be any: a line of each per line's worth of items.
  static void look_at_rows(const GemmTileArgs& g, const Block& block, int64_t row, Ahead& ahead) {
    if (g.transpose_a || block.row + row >= g.rows) return;
    constexpr int64_t kBytes = sizeof(typename K::In::Elem);
    const int64_t pitch = g.lda * kBytes;
    ahead.rows = static_cast<const char*>(g.a) + (g.row0 + block.row + row) * pitch +
                 block.item0 * K::kElementsPerItem * kBytes;
    ahead.apart = pitch;
    ahead.step = 4 * pitch;
    ahead.wrap = 16 * K::kElementsPerItem * kBytes - 12 * pitch;
  }

  // Rows [row, row + rows) of the block, kColumns columns from `col` of the block.
  static void one_tile(const GemmTileArgs& g, const Block& block, int64_t row, int64_t rows,
                       int64_t col, const Item* a, const Item* b, Sum* sums, Ahead& ahead) {
    const int64_t cols = min64(kColumns, block.cols - col);
    const RegisterTile<K> run =
        cols <= kLanes ? kRegisterTiles<K>.narrow[rows - 1] : kRegisterTiles<K>.full[rows - 1];
    Sum* kept = sums + (col / kSumStride * block.rows + row) * kSumStride + col % kSumStride;
    const Sum* before = block.first ? nullptr : kept;
    look_at(ahead, kept + rows * kSumStride);  // The next tile's, should there be any.
    if (!block.last) return run_to(run, block, a, b, before, kept, kSumStride, ahead);

    const int64_t tile_row = block.row + row, tile_col = block.col + col;
    const int64_t partial_at =
        (tile_col / kSumStride * g.rows + tile_row) * kSumStride + tile_col % kSumStride;
    if (g.epilogue == GemmTileArgs::Epilogue::kPartial) {
      Sum* partial = static_cast<Sum*>(g.partial) + partial_at;
      if (g.hint == StoreHint::kNormal) {
        return run_to(run, block, a, b, before, partial, kSumStride, ahead);
      }
      alignas(64) Sum kept_near[K::kRows * kColumns];
      run_to(run, block, a, b, before, kept_near, kColumns, ahead);
      return stream_rows(kept_near, rows, partial);
    }
    if (g.epilogue == GemmTileArgs::Epilogue::kStore && g.c_count == 1 && cols == kColumns &&
        Finish::is_plain(g)) {
      Sum* c = static_cast<Sum*>(g.c[0]) + tile_row * g.ldc + tile_col;
      return run_to(run, block, a, b, before, c, g.ldc, ahead);
    }
    Finish::look_at(g, tile_row, tile_col, cols, partial_at, ahead);
    alignas(64) Sum result[K::kRows * kColumns];
    run(a, b, block.items, before, result, kColumns, ahead);
    Finish::store(g, result, kColumns, rows, cols, tile_row, tile_col, partial_at);
  }

  static void stream_rows(const Sum* from, int64_t rows, Sum* to) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < kColumns; c += kLanes) {
        K::Isa::stream(to + r * kSumStride + c,
                       load_vec<Vec<Sum, K::Isa::kBytes>>(from + r * kColumns + c));
      }
    }
  }

  static void look_at(Ahead& ahead, const Sum* read) {
    ahead.read = reinterpret_cast<const char*>(read);
    ahead.read_pitch = kSumStride * sizeof(Sum);
  }

  static void run_to(RegisterTile<K> run, const Block& block, const Item* a, const Item* b,
                     const Sum* before, Sum* out, int64_t stride, Ahead& ahead) {
    ahead.write[0] = ahead.write[1] = reinterpret_cast<const char*>(out);
    ahead.write_pitch = stride * int64_t(sizeof(Sum));
    ahead.write_last = kColumns * int64_t(sizeof(Sum)) - 1;
    run(a, b, block.items, before, out, stride, ahead);
  }
};

template <typename K>
constexpr GemmKernel make_gemm_kernel(const char* name, DType dtype) {
  return {.name = name,
          .dtype = dtype,
          .sum_bytes = sizeof(typename K::Sum),
          .rows_quantum = K::kRows,
          .rows_max = K::kRowsMax,
          .packed_rows = K::kElementsPerItem,
          .packed_bytes = sizeof(typename K::Item),
          .pack_b = &GemmPack<K>::pack_b,
          .tile = &GemmCore<K>::tile};
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_CORE_H_
