// The end of a GEMM tile: add the other ranks' partial sums in rank order, round, store everywhere
// (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_

#include "lib/exec/cpu/tile/gemm_pack.h"

namespace sk::cpu {

// What a register tile prefetches while it computes. Requests are spread over its items: a burst at
// its start would hold up the operands.
struct Ahead {
  // The next panel of B, into the second-level cache: a line per four items.
  const char* panel;
  // Rows of A that will be packed next, likewise: four lines, `apart` from each other, per four
  // items; then `rows` moves by `step`, every fourth time by `wrap`.
  const char* rows;
  int64_t apart, step, wrap;
  // Two lines of each row of the result in up to two places, to be written, and of what is read
  // when it is. Rows that begin within a line have a third: that of the byte `write_last`.
  const char* write[2];
  int64_t write_pitch, write_last;
  const char* read;
  int64_t read_pitch;
};

constexpr int64_t kLineBytes = 64;

template <typename Isa, typename Sum>
struct GemmFinish {
  using V = Vec<Sum, Isa::kBytes>;
  static constexpr int64_t kLanes = Isa::kBytes / sizeof(Sum);
  static constexpr DType kSumType = sizeof(Sum) == 4 ? DType::kF32 : DType::kF64;

  // Whether sums can be stored to C as they are.
  static bool is_plain(const GemmTileArgs& g) {
    return g.c_dtype == kSumType && g.hint == StoreHint::kNormal;
  }

  // What store() will touch first of all.
  static void look_at(const GemmTileArgs& g, int64_t row, int64_t col, int64_t cols,
                      int64_t partial_at, Ahead& ahead) {
    const int64_t bytes = c_bytes(g);
    const int64_t offset = (row * g.ldc + col) * bytes;
    ahead.write[0] = static_cast<const char*>(g.c[0]) + offset;
    ahead.write[1] = static_cast<const char*>(g.c[g.c_count > 1 ? 1 : 0]) + offset;
    ahead.write_pitch = g.ldc * bytes;
    ahead.write_last = cols * bytes - 1;
    if (streams(g)) {  // Never to be in a cache.
      ahead.write[0] = ahead.write[1] = reinterpret_cast<const char*>(&g);
      ahead.write_pitch = ahead.write_last = 0;
    }
    if (g.epilogue != GemmTileArgs::Epilogue::kReduce) return;
    for (int rank = 0; rank < g.partial_count; ++rank) {
      if (rank == g.self) continue;
      ahead.read =
          reinterpret_cast<const char*>(static_cast<const Sum*>(g.partials[rank]) + partial_at);
      ahead.read_pitch = kGemmPanelColumns * sizeof(Sum);
      return;
    }
  }

  // Whether C goes past the caches: only whole lines do so without a read of what they replace.
  static bool streams(const GemmTileArgs& g) {
    if (g.hint != StoreHint::kNonTemporal || g.ldc * c_bytes(g) % kLineBytes != 0) return false;
    for (int j = 0; j < g.c_count; ++j) {
      if (reinterpret_cast<uintptr_t>(g.c[j]) % kLineBytes != 0) return false;
    }
    return true;
  }

  static int64_t c_bytes(const GemmTileArgs& g) {
    return g.c_dtype == DType::kF64 ? 8 : g.c_dtype == DType::kF32 ? 4 : 2;
  }

  // `result` holds rows x cols sums with stride `stride`, whole vectors of them; they belong at
  // (row, col) of the tile, and at `partial_at` of the partials.
  static void store(const GemmTileArgs& g, const Sum* result, int64_t stride, int64_t rows,
                    int64_t cols, int64_t row, int64_t col, int64_t partial_at) {
    if constexpr (sizeof(Sum) == 4) {
      if (g.c_dtype == DType::kBF16) {
        return store_as<Bf16<Isa>>(g, result, stride, rows, cols, row, col, partial_at);
      }
      if (g.c_dtype == DType::kF16) {
        return store_as<F16<Isa>>(g, result, stride, rows, cols, row, col, partial_at);
      }
    } else {
      if (g.c_dtype == DType::kF32) {
        return store_as<F32OfF64<Isa>>(g, result, stride, rows, cols, row, col, partial_at);
      }
    }
    store_as<Plain<Isa, Sum>>(g, result, stride, rows, cols, row, col, partial_at);
  }

  template <typename Out>
  static void store_as(const GemmTileArgs& g, const Sum* result, int64_t stride, int64_t rows,
                       int64_t cols, int64_t row, int64_t col, int64_t partial_at) {
    const Rows at = {result, stride, rows, cols, row * g.ldc + col, partial_at};
    if (streams(g)) return store_ranks<Out, true>(g, at);
    store_ranks<Out, false>(g, at);
  }

  struct Rows {
    const Sum* result;
    int64_t stride, rows, cols;
    int64_t c_at;        // Elements from the start of each C,
    int64_t partial_at;  // and of each partial.
  };

  template <typename Out, bool kStream>
  static void store_ranks(const GemmTileArgs& g, const Rows& at) {
    if (g.epilogue != GemmTileArgs::Epilogue::kReduce || g.partial_count == 1) {
      return store_rows<Out, kStream, 1>(g, at);
    }
    if (g.partial_count == 2) return store_rows<Out, kStream, 2>(g, at);
    store_rows<Out, kStream, 0>(g, at);
  }

  // kRanks: whose sums are added; 0 is any number of them.
  template <typename Out, bool kStream, int kRanks>
  static void store_rows(const GemmTileArgs& g, const Rows& at) {
    constexpr int64_t kBytes = sizeof(typename Out::Elem);
    const int64_t pitch = g.ldc * kBytes;
    char* const first = static_cast<char*>(g.c[0]) + at.c_at * kBytes;
    char* const second = g.c_count > 1 ? static_cast<char*>(g.c[1]) + at.c_at * kBytes : nullptr;
    const Sum* other = nullptr;
    if constexpr (kRanks == 2) {
      other = static_cast<const Sum*>(g.partials[1 - g.self]) + at.partial_at;
    }
    for (int64_t r = 0; r < at.rows; ++r) {
      for (int64_t c = 0; c < at.cols; c += kLanes) {
        V sum = load_vec<V>(at.result + r * at.stride + c);
        const int64_t in_partial = r * kGemmPanelColumns + c;
        // Of two ranks both orders give the same bits.
        if constexpr (kRanks == 2) sum += load_vec<V>(other + in_partial);
        if constexpr (kRanks == 0) sum = add_ranks(g, sum, at.partial_at + in_partial);
        const typename Out::Mem out = Out::narrow(sum);
        const int64_t offset = r * pitch + c * kBytes;
        const int64_t bytes = min64(kLanes, at.cols - c) * kBytes;
        put<kStream>(first + offset, out, bytes);
        if (second == nullptr) continue;
        put<kStream>(second + offset, out, bytes);
        for (int j = 2; j < g.c_count; ++j) {
          put<kStream>(static_cast<char*>(g.c[j]) + at.c_at * kBytes + offset, out, bytes);
        }
      }
    }
  }

  template <bool kStream, typename Mem>
  static inline __attribute__((always_inline)) void put(char* to, Mem out, int64_t bytes) {
    if (bytes < int64_t(sizeof(Mem))) return Isa::store_part(to, out, size_t(bytes));
    if constexpr (kStream) {
      if (reinterpret_cast<uintptr_t>(to) % sizeof(Mem) == 0) return Isa::stream(to, out);
    }
    store_vec(to, out);
  }

  // Strictly in rank order: the same bits whichever rank does it.
  static V add_ranks(const GemmTileArgs& g, V own, int64_t at) {
    V sum = rank_sum(g, own, 0, at);
    for (int rank = 1; rank < g.partial_count; ++rank) sum += rank_sum(g, own, rank, at);
    return sum;
  }

  static V rank_sum(const GemmTileArgs& g, V own, int rank, int64_t at) {
    return rank == g.self ? own : load_vec<V>(static_cast<const Sum*>(g.partials[rank]) + at);
  }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_
