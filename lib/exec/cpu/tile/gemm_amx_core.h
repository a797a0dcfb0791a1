// One bf16 GEMM tile on AMX, as a template over its tile instructions (see isa_types.h for the
// rules; a test runs it with the instructions emulated).
//
// The register tile is 32 x 32: four 16 x 16 sums, two tiles of A, two of B. A panel of 32 rows by
// one chunk of k (32 KB) stays in the first-level cache; B streams past it from the second level
// with a hint that keeps it from evicting A. Sums go to a 4 KB result, and AVX-512 carries the
// previous result on (to sums, partial or C) between the tile instructions of the next.
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_AMX_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_AMX_CORE_H_

#include "lib/exec/cpu/tile/gemm_amx_pack.h"
#include "lib/exec/cpu/tile/gemm_finish.h"
#include "lib/exec/cpu/tile/gemm_kernel.h"

namespace sk::cpu {

// What becomes of a result, row by row. Those named Add first add the sums of earlier chunks.
enum class AmxEnd {
  kNone,  // There is no earlier result.
  kKeep,  // To the sums.
  kKeepAdd,
  kStore,  // As f32 to one place: C or a partial.
  kStoreAdd,
  kFinish,  // By GemmFinish: other types, several places, other ranks' sums, streaming.
  kFinishAdd,
};

template <typename Tiles, typename Isa>
struct AmxGemm {
  using V = Vec<float, 64>;
  using Pack = AmxPack<Isa>;
  using Finish = GemmFinish<Isa, float>;
  static constexpr int64_t kSide = 32;  // Of a register tile; rows of an A panel, columns of B's.
  static constexpr int64_t kRowsMax = 256;
  static constexpr int64_t kColumnsMax = 512;
  static constexpr size_t kResultBytes = kSide * kSide * sizeof(float);
  static constexpr size_t kPanelBytesMax = size_t(Pack::kStepsMax) * Pack::kStepBytes;
  static_assert(Isa::kBytes == 64 && kSide == kGemmPanelColumns);
  static_assert(kPanelBytesMax + 2 * kResultBytes <= kGemmScratchABytes);
  static_assert(kRowsMax * kColumnsMax * sizeof(float) <= kGemmScratchSumBytes);

  struct Block {        // One block of the tile, for one chunk of k.
    int64_t row, rows;  // In the tile.
    int64_t col, cols;
    int64_t step0, steps;  // Of 32 elements of k.
    bool first, last;
  };

  // A result whose end is still to come. It is 32 x 32 with stride 32, as are its sums.
  struct Pending {
    AmxEnd end = AmxEnd::kNone;
    float* result = nullptr;
    float* sums = nullptr;
    char* to = nullptr;  // kStore.
    int64_t pitch = 0;
    int64_t rows = 0, cols = 0;
    int64_t row = 0, col = 0, partial_at = 0;  // kFinish: in the tile.
  };

  // What comes next, fetched into the second-level cache a few lines per step.
  struct Ahead {
    const char* b = nullptr;  // `b_lines` of the next block's packed columns per step,
    int64_t b_lines = 0;
    int64_t b_steps = 0;      // for so many steps.
    const char* a = nullptr;  // Four rows of A per step: eight steps to a column of lines,
    int64_t pitch = 0;
    int64_t a_steps = 0;  // for so many steps.
  };

  const GemmTileArgs& g;
  char* const scratch;
  Pending pending = {};
  Ahead ahead = {};
  int turn = 0;  // Of the two results.

  static void tile(const GemmTileArgs& args, char* scratch) {
    Tiles::begin();
    AmxGemm gemm{args, scratch};
    gemm.run();
    gemm.end_pending();
    Tiles::end();
    if (args.hint == StoreHint::kNonTemporal) Isa::stream_fence();
  }

  void run() {
    const int64_t steps = Pack::steps_of(g.k);
    const int64_t panels = ceil_div(g.rows, kSide);
    const int64_t row_blocks = ceil_div(g.rows, kRowsMax);
    for (int64_t col = 0; col < g.cols; col += kColumnsMax) {
      for (int64_t i = 0; i < row_blocks; ++i) {
        const int64_t row = share(panels, row_blocks, i) * kSide;  // Whole panels, evenly.
        const int64_t rows = min64(share(panels, row_blocks, i + 1) * kSide, g.rows) - row;
        const int64_t cols = min64(kColumnsMax, g.cols - col);
        int64_t step0 = 0;
        do {  // k == 0 is one empty chunk: it stores zeros.
          const int64_t count = min64(Pack::kStepsMax, steps - step0);
          const Block block = {row,   rows,  col,        cols,
                               step0, count, step0 == 0, step0 + count == steps};
          look_at_next_block(block, i + 1 == row_blocks);
          run_chunk(block);
          step0 += count;
        } while (step0 < steps);
      }
    }
  }

  const char* b_panel(int64_t col, int64_t step0, int64_t steps) const {
    return static_cast<const char*>(g.packed_b) +
           (step0 * (Pack::padded(g.n) / kSide) + (g.col0 + col) / kSide * steps) *
               Pack::kStepBytes;
  }

  // The block after this one in the order of run().
  void look_at_next_block(const Block& block, bool last_rows) {
    ahead.b_steps = 0;
    int64_t col = block.col, step0 = block.step0 + block.steps;
    if (block.last) {
      step0 = 0;
      if (last_rows) col += kColumnsMax;
    }
    if (col >= g.cols || (col == block.col && step0 == block.step0)) return;
    const int64_t steps = min64(Pack::kStepsMax, Pack::steps_of(g.k) - step0);
    const int64_t lines =
        ceil_div(min64(kColumnsMax, g.cols - col), kSide) * steps * (Pack::kStepBytes / 64);
    ahead.b = b_panel(col, step0, steps);
    ahead.b_lines = 2;
    ahead.b_steps = lines / ahead.b_lines;
  }

  void run_chunk(const Block& block) {
    char* panel = scratch;
    float* sums = reinterpret_cast<float*>(scratch + kGemmScratchABytes);
    void* stage = scratch + kGemmScratchABytes + kGemmScratchSumBytes;
    for (int64_t row = 0; row < block.rows; row += kSide) {
      const int64_t rows = min64(kSide, block.rows - row);
      const char* a = static_cast<const char*>(g.a) +
                      2 * ((g.row0 + block.row + row) * g.lda + block.step0 * Pack::kStepElements);
      // Whole panels of plain rows are copied by the tile instructions of the first column.
      const bool whole = !g.transpose_a && rows == kSide &&
                         (block.step0 + block.steps) * Pack::kStepElements <= g.k;
      if (!whole) {
        Pack::pack_a(g, g.row0 + block.row + row, rows, block.step0, block.steps, panel, stage);
      }
      look_at_rows(block, row + kSide);
      for (int64_t col = 0; col < block.cols; col += kSide) {
        const char* b = b_panel(block.col + col, block.step0, block.steps);
        if (g.rows <= kSide) look_at_stream(b, block.steps);
        float* result = reinterpret_cast<float*>(scratch + kPanelBytesMax + turn * kResultBytes);
        turn ^= 1;
        multiply(panel, a, b, block.steps, result, whole && col == 0);
        plan_end(block, row, rows, col, sums, result);
      }
    }
  }

  // A single panel of rows reads B once and waits for memory: B itself is fetched ahead.
  void look_at_stream(const char* b, int64_t steps) {
    constexpr int64_t kDistance = 4 * Pack::kStepBytes;
    ahead.b = b + kDistance;
    ahead.b_lines = Pack::kStepBytes / 64;
    ahead.b_steps = steps;
  }

  void look_at_rows(const Block& block, int64_t row) {
    ahead.a_steps = 0;
    if (g.transpose_a || row >= block.rows) return;
    ahead.a = static_cast<const char*>(g.a) +
              2 * ((g.row0 + block.row + row) * g.lda + block.step0 * Pack::kStepElements);
    ahead.pitch = 2 * g.lda;
    ahead.a_steps = block.steps * (kSide / 4);
  }

  // Fills `pending` for the result just computed.
  void plan_end(const Block& block, int64_t row, int64_t rows, int64_t col, float* sums,
                float* result) {
    Pending p;
    p.result = result;
    p.sums = sums + col * block.rows + row * kSide;
    p.rows = rows;
    p.cols = min64(kSide, block.cols - col);
    p.row = block.row + row;
    p.col = block.col + col;
    p.partial_at = (p.col / kSide * g.rows + p.row) * kSide;
    const bool add = !block.first;
    if (!block.last) {
      p.end = add ? AmxEnd::kKeepAdd : AmxEnd::kKeep;
    } else if (g.epilogue == GemmTileArgs::Epilogue::kPartial) {
      p.end = add ? AmxEnd::kStoreAdd : AmxEnd::kStore;
      p.to = reinterpret_cast<char*>(static_cast<float*>(g.partial) + p.partial_at);
      p.pitch = kSide * sizeof(float);
    } else if (g.epilogue == GemmTileArgs::Epilogue::kStore && g.c_count == 1 && p.cols == kSide &&
               Finish::is_plain(g)) {
      p.end = add ? AmxEnd::kStoreAdd : AmxEnd::kStore;
      p.to = reinterpret_cast<char*>(static_cast<float*>(g.c[0]) + p.row * g.ldc + p.col);
      p.pitch = g.ldc * int64_t(sizeof(float));
    } else {
      p.end = add ? AmxEnd::kFinishAdd : AmxEnd::kFinish;
    }
    pending = p;
  }

  template <AmxEnd kEnd>
  static inline __attribute__((always_inline)) void end_row(const GemmTileArgs& g, const Pending& p,
                                                            int64_t r) {
    if constexpr (kEnd == AmxEnd::kNone) return;
    float* result = p.result + r * kSide;
    V x = load_vec<V>(result), y = load_vec<V>(result + 16);
    if constexpr (kEnd == AmxEnd::kKeepAdd || kEnd == AmxEnd::kStoreAdd ||
                  kEnd == AmxEnd::kFinishAdd) {
      x = load_vec<V>(p.sums + r * kSide) + x;
      y = load_vec<V>(p.sums + r * kSide + 16) + y;
    }
    if constexpr (kEnd == AmxEnd::kKeep || kEnd == AmxEnd::kKeepAdd) {
      store_vec(p.sums + r * kSide, x);
      store_vec(p.sums + r * kSide + 16, y);
    } else if constexpr (kEnd == AmxEnd::kStore || kEnd == AmxEnd::kStoreAdd) {
      if (g.hint == StoreHint::kNonTemporal) {  // A partial: its rows are whole lines.
        Isa::stream(p.to + r * p.pitch, x);
        Isa::stream(p.to + r * p.pitch + 64, y);
        return;
      }
      store_vec(p.to + r * p.pitch, x);
      store_vec(p.to + r * p.pitch + 64, y);
    } else {
      if constexpr (kEnd == AmxEnd::kFinishAdd) {
        store_vec(result, x);
        store_vec(result + 16, y);
      }
      Finish::store(g, result, kSide, 1, p.cols, p.row + r, p.col, p.partial_at + r * kSide);
    }
  }

  // result = A panel * B panel, and between its instructions the end of the pending result.
  template <AmxEnd kEnd, bool kCopy>
  void multiply_ending(char* panel, const char* plain, const char* b, int64_t steps,
                       float* result) {
    const Pending p = pending;
    const int64_t rows_per_step = steps > 0 ? ceil_div(p.rows, steps) : 0;
    const int64_t pitch = 2 * g.lda;
    int64_t ended = 0;
    Tiles::zero();
    for (int64_t s = 0; s < steps; ++s) {
      if constexpr (kCopy) {
        Tiles::load_a0_once(plain, pitch);
        Tiles::load_b0(b);
        Tiles::dot_00();
        Tiles::load_a1_once(plain + 16 * pitch, pitch);
        Tiles::dot_10();
        Tiles::load_b1(b + Pack::kTileBytes);
        Tiles::dot_01();
        Tiles::dot_11();
        Tiles::store_a0(panel);
        Tiles::store_a1(panel + Pack::kTileBytes);
        plain += Pack::kTileRowBytes;
      } else {
        Tiles::load_a0(panel);
        Tiles::load_b0(b);
        Tiles::dot_00();
        Tiles::load_a1(panel + Pack::kTileBytes);
        Tiles::dot_10();
        Tiles::load_b1(b + Pack::kTileBytes);
        Tiles::dot_01();
        Tiles::dot_11();
      }
      if constexpr (kEnd != AmxEnd::kNone) {
        const int64_t until = min64(ended + rows_per_step, p.rows);
        for (; ended < until; ++ended) end_row<kEnd>(g, p, ended);
      }
      if (ahead.b_steps > 0) fetch_b();
      if (ahead.a_steps > 0) fetch_rows();
      panel += Pack::kStepBytes;
      b += Pack::kStepBytes;
    }
    Tiles::store_sums(result, kSide * sizeof(float));
    if constexpr (kEnd != AmxEnd::kNone) {
      for (; ended < p.rows; ++ended) end_row<kEnd>(g, p, ended);
    }
  }

  void fetch_b() {
    for (int64_t i = 0; i < ahead.b_lines; ++i, ahead.b += 64) __builtin_prefetch(ahead.b, 0, 2);
    --ahead.b_steps;
  }

  // One line of each of four rows; after all 32 rows the next line.
  void fetch_rows() {
    for (int64_t r = 0; r < 4; ++r) __builtin_prefetch(ahead.a + r * ahead.pitch, 0, 2);
    --ahead.a_steps;
    ahead.a += ahead.a_steps % (kSide / 4) != 0 ? 4 * ahead.pitch : 64 - (kSide - 4) * ahead.pitch;
  }

  template <AmxEnd kEnd>
  void multiply_as(char* panel, const char* plain, const char* b, int64_t steps, float* result,
                   bool copy) {
    if (copy) return multiply_ending<kEnd, true>(panel, plain, b, steps, result);
    multiply_ending<kEnd, false>(panel, plain, b, steps, result);
  }

  void multiply(char* panel, const char* plain, const char* b, int64_t steps, float* result,
                bool copy) {
    switch (pending.end) {
      case AmxEnd::kNone:
        return multiply_as<AmxEnd::kNone>(panel, plain, b, steps, result, copy);
      case AmxEnd::kKeep:
        return multiply_as<AmxEnd::kKeep>(panel, plain, b, steps, result, copy);
      case AmxEnd::kKeepAdd:
        return multiply_as<AmxEnd::kKeepAdd>(panel, plain, b, steps, result, copy);
      case AmxEnd::kStore:
        return multiply_as<AmxEnd::kStore>(panel, plain, b, steps, result, copy);
      case AmxEnd::kStoreAdd:
        return multiply_as<AmxEnd::kStoreAdd>(panel, plain, b, steps, result, copy);
      case AmxEnd::kFinish:
        return multiply_as<AmxEnd::kFinish>(panel, plain, b, steps, result, copy);
      case AmxEnd::kFinishAdd:
        return multiply_as<AmxEnd::kFinishAdd>(panel, plain, b, steps, result, copy);
    }
  }

  // The last result has no next tile to hide in.
  void end_pending() {
    const Pending& p = pending;
    for (int64_t r = 0; r < p.rows; ++r) {
      switch (p.end) {
        case AmxEnd::kNone:
        case AmxEnd::kKeep:  // The last chunk stores.
        case AmxEnd::kKeepAdd:
          break;
        case AmxEnd::kStore:
          end_row<AmxEnd::kStore>(g, p, r);
          break;
        case AmxEnd::kStoreAdd:
          end_row<AmxEnd::kStoreAdd>(g, p, r);
          break;
        case AmxEnd::kFinish:
          end_row<AmxEnd::kFinish>(g, p, r);
          break;
        case AmxEnd::kFinishAdd:
          end_row<AmxEnd::kFinishAdd>(g, p, r);
          break;
      }
    }
  }
};

template <typename Tiles, typename Isa>
constexpr GemmKernel make_amx_kernel(const char* name) {
  return {.name = name,
          .dtype = DType::kBF16,
          .sum_bytes = sizeof(float),
          .rows_quantum = AmxGemm<Tiles, Isa>::kSide,
          .rows_max = AmxGemm<Tiles, Isa>::kRowsMax,
          .packed_rows = AmxPack<Isa>::kStepElements,
          .packed_bytes = AmxPack<Isa>::kStepBytes / AmxPack<Isa>::kSide,
          .pack_b = &AmxPack<Isa>::pack_b,
          .tile = &AmxGemm<Tiles, Isa>::tile};
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_AMX_CORE_H_
