// The loops of rmsnorm, as templates over an instruction set (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_

#include "lib/exec/cpu/tile/isa_types.h"
#include "lib/exec/cpu/tile/rmsnorm_table.h"

namespace sk::cpu {

// Elements of one type, in whole vectors and a last part.
template <typename Isa, typename T>
struct RowOf {
  using Mem = typename T::Mem;
  using Acc = typename T::Acc;
  static constexpr size_t kBytes = sizeof(typename T::Elem);

  static inline __attribute__((always_inline)) Acc load(const void* row, size_t i) {
    return T::widen(load_vec<Mem>(static_cast<const char*>(row) + i * kBytes));
  }
  // Behind the end are zeros.
  static Acc load_last(const void* row, size_t i, size_t count) {
    return T::widen(
        Isa::template load_part<Mem>(static_cast<const char*>(row) + i * kBytes, count * kBytes));
  }
  template <bool kStream>
  static inline __attribute__((always_inline)) void store(void* row, size_t i, Acc value) {
    char* at = static_cast<char*>(row) + i * kBytes;
    if constexpr (kStream) {
      Isa::stream(at, T::narrow(value));
    } else {
      store_vec(at, T::narrow(value));
    }
  }
  static void store_last(void* row, size_t i, Acc value, size_t count) {
    Isa::store_part(static_cast<char*>(row) + i * kBytes, T::narrow(value), count * kBytes);
  }
  static bool is_aligned(const void* row) {
    return reinterpret_cast<uintptr_t>(row) % sizeof(Mem) == 0;
  }
};

// No weight is a weight of ones, which costs nothing.
struct NoWeight {};

template <typename Isa, typename X, typename W>
struct Rmsnorm {
  using Acc = typename X::Acc;
  using Sum = __typeof__(Acc{}[0] + Acc{}[0]);
  using Row = RowOf<Isa, X>;
  static constexpr size_t kLanes = X::kLanes;
  static constexpr size_t kUnroll = 4;
  static constexpr bool kWeighted = !__is_same(W, NoWeight);

  static inline __attribute__((always_inline)) Acc weighted(Acc value, const void* w, size_t j) {
    if constexpr (kWeighted) {
      return value * RowOf<Isa, W>::load(w, j);
    } else {
      return value;
    }
  }
  static Acc weighted_last(Acc value, const void* w, size_t j, size_t count) {
    if constexpr (kWeighted) {
      return value * RowOf<Isa, W>::load_last(w, j, count);
    } else {
      return value;
    }
  }

  // In one order: lanes of four vectors, then these, then their lanes.
  static Sum sum_of(const Acc (&parts)[kUnroll]) {
    const Acc both = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    Sum sum = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) sum += both[lane];
    return sum;
  }
  // `term(j)` is a vector of terms, `last(j, count)` the last ones.
  template <typename Term, typename Last>
  static inline __attribute__((always_inline)) Sum sum_row(size_t cols, const Term& term,
                                                           const Last& last) {
    Acc parts[kUnroll] = {};
    size_t j = 0;
    for (; j + kUnroll * kLanes <= cols; j += kUnroll * kLanes) {
      for (size_t v = 0; v < kUnroll; ++v) parts[v] += term(j + v * kLanes);
    }
    for (; j + kLanes <= cols; j += kLanes) parts[0] += term(j);
    if (j < cols) parts[1] += last(j, cols - j);
    return sum_of(parts);
  }

  static Sum rstd_of(const void* x, size_t cols, Sum eps) {
    const Sum squares = sum_row(
        cols,
        [&](size_t j) {
          const Acc value = Row::load(x, j);
          return value * value;
        },
        [&](size_t j, size_t count) {
          const Acc value = Row::load_last(x, j, count);
          return value * value;
        });
    const Sum mean = squares / Sum(cols) + eps;
    if constexpr (sizeof(Sum) == 8) return 1 / __builtin_sqrt(mean);
    return 1 / __builtin_sqrtf(mean);
  }

  template <bool kStream>
  static void scale_row(const RmsnormArgs& a, const void* x, void* y, Sum rstd) {
    const Acc by = Acc{} + rstd;
    size_t j = 0;
    for (; j + kLanes <= a.cols; j += kLanes) {
      Row::template store<kStream>(y, j, weighted(Row::load(x, j) * by, a.w, j));
    }
    if (j == a.cols) return;
    const size_t count = a.cols - j;
    Row::store_last(y, j, weighted_last(Row::load_last(x, j, count) * by, a.w, j, count), count);
  }

  static const char* at(const void* base, int64_t pitch, size_t row) {
    return static_cast<const char*>(base) + int64_t(row) * pitch;
  }
  static char* at(void* base, int64_t pitch, size_t row) {
    return static_cast<char*>(base) + int64_t(row) * pitch;
  }

  static void forward(const RmsnormArgs& a) {
    const bool streams = a.hint == StoreHint::kNonTemporal;
    for (size_t i = 0; i < a.rows; ++i) {
      const void* x = at(a.x, a.x_pitch, i);
      void* y = at(a.out, a.out_pitch, i);
      const Sum rstd = rstd_of(x, a.cols, Sum(a.eps));
      if (streams && Row::is_aligned(y)) {
        scale_row<true>(a, x, y, rstd);
      } else {
        scale_row<false>(a, x, y, rstd);
      }
    }
    if (streams) Isa::stream_fence();
  }

  static void rms(const RmsnormArgs& a) {
    for (size_t i = 0; i < a.rows; ++i) {
      static_cast<Sum*>(a.out)[i] = rstd_of(at(a.x, a.x_pitch, i), a.cols, Sum(a.eps));
    }
  }

  // Without rows of their own: dy_ij w_j.
  static inline __attribute__((always_inline)) Acc gradient(const RmsnormArgs& a, const void* dy,
                                                            size_t j) {
    return weighted(Row::load(dy, j), a.w, j);
  }
  static Acc gradient_last(const RmsnormArgs& a, const void* dy, size_t j, size_t count) {
    return weighted_last(Row::load_last(dy, j, count), a.w, j, count);
  }

  template <bool kStream>
  static void dx_row(const RmsnormArgs& a, const void* x, const void* dy, void* dx, Sum rstd) {
    const Sum dot = sum_row(
        a.cols, [&](size_t j) { return gradient(a, dy, j) * Row::load(x, j); },
        [&](size_t j, size_t count) {
          return gradient_last(a, dy, j, count) * Row::load_last(x, j, count);
        });
    const Acc by = Acc{} + rstd, off = Acc{} + rstd * rstd * (dot / Sum(a.cols));
    size_t j = 0;
    for (; j + kLanes <= a.cols; j += kLanes) {
      Row::template store<kStream>(dx, j, (gradient(a, dy, j) - Row::load(x, j) * off) * by);
    }
    if (j == a.cols) return;
    const size_t count = a.cols - j;
    const Acc value = gradient_last(a, dy, j, count) - Row::load_last(x, j, count) * off;
    Row::store_last(dx, j, value * by, count);
  }

  static void dx(const RmsnormArgs& a) {
    const bool streams = a.hint == StoreHint::kNonTemporal;
    for (size_t i = 0; i < a.rows; ++i) {
      const void *x = at(a.x, a.x_pitch, i), *dy = at(a.dy, a.dy_pitch, i);
      void* out = at(a.out, a.out_pitch, i);
      const Sum rstd = static_cast<const Sum*>(a.rstd)[i];
      if (streams && Row::is_aligned(out)) {
        dx_row<true>(a, x, dy, out, rstd);
      } else {
        dx_row<false>(a, x, dy, out, rstd);
      }
    }
    if (streams) Isa::stream_fence();
  }

  // Columns that are summed beside each other: their sums stay in the nearest cache, and of each
  // row some lines are read one after another.
  static constexpr size_t kStrip = 512;

  static void dw_rows(const RmsnormArgs& a, size_t row, size_t rows, size_t j0, size_t cols,
                      Acc* sums) {
    for (size_t i = row; i < row + rows; ++i) {
      const void *x = at(a.x, a.x_pitch, i), *dy = at(a.dy, a.dy_pitch, i);
      const Acc by = Acc{} + static_cast<const Sum*>(a.rstd)[i];
      size_t j = 0, v = 0;
      for (; j + kLanes <= cols; j += kLanes, ++v) {
        sums[v] += Row::load(dy, j0 + j) * (Row::load(x, j0 + j) * by);
      }
      if (j == cols) continue;
      sums[v] += Row::load_last(dy, j0 + j, cols - j) * (Row::load_last(x, j0 + j, cols - j) * by);
    }
  }

  static void dw_strip(const RmsnormArgs& a, size_t j0, size_t cols) {
    using Out = RowOf<Isa, W>;
    constexpr size_t kVectors = kStrip / kLanes;
    Acc total[kVectors] = {};
    for (size_t i = 0; i < a.rows; i += kRmsnormBlockRows) {
      Acc block[kVectors] = {};
      const size_t left = a.rows - i;
      dw_rows(a, i, left < kRmsnormBlockRows ? left : kRmsnormBlockRows, j0, cols, block);
      for (size_t v = 0; v < kVectors; ++v) total[v] += block[v];
    }
    size_t j = 0, v = 0;
    for (; j + kLanes <= cols; j += kLanes, ++v) {
      Out::template store<false>(a.out, j0 + j, total[v]);
    }
    if (j < cols) Out::store_last(a.out, j0 + j, total[v], cols - j);
  }

  static void dw(const RmsnormArgs& a) {
    for (size_t j = 0; j < a.cols; j += kStrip) {
      dw_strip(a, j, a.cols - j < kStrip ? a.cols - j : kStrip);
    }
  }
};

template <typename Isa, typename X, typename F32>
constexpr void fill_rmsnorm_table(RmsnormTable& table, int type) {
  table.forward[type][0] = Rmsnorm<Isa, X, NoWeight>::forward;
  table.forward[type][1] = Rmsnorm<Isa, X, X>::forward;
  table.forward[type][2] = Rmsnorm<Isa, X, F32>::forward;
  table.rms[type] = Rmsnorm<Isa, X, NoWeight>::rms;
  table.dx[type][0] = Rmsnorm<Isa, X, NoWeight>::dx;
  table.dx[type][1] = Rmsnorm<Isa, X, X>::dx;
  table.dx[type][2] = Rmsnorm<Isa, X, F32>::dx;
  table.dw[type][0] = nullptr;
  table.dw[type][1] = Rmsnorm<Isa, X, X>::dw;
  table.dw[type][2] = Rmsnorm<Isa, X, F32>::dw;
}

template <typename Isa>
constexpr RmsnormTable make_rmsnorm_table() {
  RmsnormTable table{};
  fill_rmsnorm_table<Isa, Plain<Isa, float>, Plain<Isa, float>>(table, 0);
  fill_rmsnorm_table<Isa, Plain<Isa, double>, F32OfF64<Isa>>(table, 1);
  fill_rmsnorm_table<Isa, Bf16<Isa>, Plain<Isa, float>>(table, 2);
  fill_rmsnorm_table<Isa, F16<Isa>, Plain<Isa, float>>(table, 3);
  return table;
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_
