// The end of a GEMM tile: add the other ranks' partial sums in rank order, round, store everywhere
// (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_
#define SK_LIB_EXEC_CPU_TILE_GEMM_FINISH_H_

#include "lib/exec/cpu/tile/gemm_kernel.h"
#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {

template <typename Isa, typename Sum>
struct GemmFinish {
  using V = Vec<Sum, Isa::kBytes>;
  static constexpr int64_t kLanes = Isa::kBytes / sizeof(Sum);
  static constexpr DType kSumType = sizeof(Sum) == 4 ? DType::kF32 : DType::kF64;

  // Whether sums can be stored to C as they are.
  static bool is_plain(const GemmTileArgs& g) {
    return g.c_dtype == kSumType && g.hint == StoreHint::kNormal;
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
