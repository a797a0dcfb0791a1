// The end of a GEMM tile: add the other ranks' partial sums in rank order, round, store everywhere
// (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_

#include "lib/exec/cpu/tile/gemm_kernel.h"
#include "lib/exec/cpu/tile/isa_types.h"

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
  // when it is.
  const char* write[2];
  int64_t write_pitch;
  const char* read;
  int64_t read_pitch;
};

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
  static void look_at(const GemmTileArgs& g, int64_t row, int64_t col, int64_t partial_at,
                      Ahead& ahead) {
    const int64_t bytes = c_bytes(g);
    const int64_t offset = (row * g.ldc + col) * bytes;
    ahead.write[0] = static_cast<const char*>(g.c[0]) + offset;
    ahead.write[1] = static_cast<const char*>(g.c[g.c_count > 1 ? 1 : 0]) + offset;
    ahead.write_pitch = g.ldc * bytes;
    if (g.hint == StoreHint::kNonTemporal) {  // Never to be in a cache.
      ahead.write[0] = ahead.write[1] = reinterpret_cast<const char*>(&g);
      ahead.write_pitch = 0;
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
    constexpr int64_t kBytes = sizeof(typename Out::Elem);
    constexpr int64_t kVectorBytes = sizeof(typename Out::Mem);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; c += kLanes) {
        V sum = load_vec<V>(result + r * stride + c);
        if (g.epilogue == GemmTileArgs::Epilogue::kReduce) {
          sum = add_ranks(g, sum, partial_at + r * kGemmPanelColumns + c);
        }
        const typename Out::Mem out = Out::narrow(sum);
        const int64_t offset = ((row + r) * g.ldc + col + c) * kBytes;
        if (cols - c < kLanes) {
          for (int j = 0; j < g.c_count; ++j) {
            Isa::store_part(static_cast<char*>(g.c[j]) + offset, out, size_t((cols - c) * kBytes));
          }
        } else {
          for (int j = 0; j < g.c_count; ++j) {
            char* to = static_cast<char*>(g.c[j]) + offset;
            if (g.hint == StoreHint::kNonTemporal &&
                reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0) {
              Isa::stream(to, out);
            } else {
              store_vec(to, out);
            }
          }
        }
      }
    }
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
