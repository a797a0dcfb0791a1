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
  // So many elements lie before the first vector that may be stored past the caches; all of them
  // where rows are not aligned to their elements.
  static size_t before_aligned(const void* row, size_t count) {
    const size_t off = reinterpret_cast<uintptr_t>(row) % sizeof(Mem);
    if (off % kBytes != 0) return count;
    const size_t head = off == 0 ? 0 : (sizeof(Mem) - off) / kBytes;
    return head < count ? head : count;
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
  // A lane that goes on adding to what has grown loses digits, so rows are summed in strips, and
  // strips in doubles.
  static constexpr size_t kStrip = 4096;
  static_assert(kStrip % (kUnroll * kLanes) == 0);
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

  // In one order: lanes of four vectors, then these, then their lanes by halves.
  static Sum sum_of(const Acc (&parts)[kUnroll]) {
    const Acc both = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    Sum lanes[kLanes];
    store_vec(lanes, both);
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }
  // In the order of columns. `term(j)` is a vector of terms, `last(j, count)` the last ones.
  template <typename Term, typename Last>
  static inline __attribute__((always_inline)) Sum sum_row(size_t cols, const Term& term,
                                                           const Last& last) {
    double strips = 0;
    size_t j = 0;
    while (cols - j > kStrip) {
      Acc parts[kUnroll] = {};
      for (const size_t end = j + kStrip; j < end; j += kUnroll * kLanes) {
        for (size_t v = 0; v < kUnroll; ++v) parts[v] += term(j + v * kLanes);
      }
      strips += double(sum_of(parts));
    }
    Acc parts[kUnroll] = {};
    for (; j + kUnroll * kLanes <= cols; j += kUnroll * kLanes) {
      for (size_t v = 0; v < kUnroll; ++v) parts[v] += term(j + v * kLanes);
    }
    for (; j + kLanes <= cols; j += kLanes) parts[0] += term(j);
    if (j < cols) parts[1] += last(j, cols - j);
    return Sum(strips + double(sum_of(parts)));
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
    return rstd_from(squares, cols, eps);
  }
  static Sum rstd_from(Sum squares, size_t cols, Sum eps) {
    const Sum mean = squares / Sum(cols) + eps;
    if constexpr (sizeof(Sum) == 8) return 1 / __builtin_sqrt(mean);
    return 1 / __builtin_sqrtf(mean);
  }

  // Of x and the residual, whose sum is left as it is stored.
  static Sum rstd_of_sum(const void* x, const void* residual, void* sum, size_t cols, Sum eps) {
    const Sum squares = sum_row(
        cols,
        [&](size_t j) {
          const auto stored = X::narrow(Row::load(x, j) + Row::load(residual, j));
          store_vec(static_cast<char*>(sum) + j * Row::kBytes, stored);
          const Acc value = X::widen(stored);
          return value * value;
        },
        [&](size_t j, size_t count) {
          Row::store_last(sum, j, Row::load_last(x, j, count) + Row::load_last(residual, j, count),
                          count);
          const Acc value = Row::load_last(sum, j, count);
          return value * value;
        });
    return rstd_from(squares, cols, eps);
  }

  static const char* at(const void* base, int64_t pitch, size_t row) {
    return static_cast<const char*>(base) + int64_t(row) * pitch;
  }
  static char* at(void* base, int64_t pitch, size_t row) {
    return static_cast<char*>(base) + int64_t(row) * pitch;
  }

  // Asks for the lines of some rows, which are read next: while a row is written nothing else is
  // read from memory. Addresses behind the last row are asked for nothing.
  template <size_t kRows>
  struct Ahead {
    const char* row[kRows];

    inline __attribute__((always_inline)) void ask(size_t j) const {
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t byte = 0; byte < 2 * sizeof(typename X::Mem); byte += 64) {
          __builtin_prefetch(row[r] + j * Row::kBytes + byte, 0, 3);
        }
      }
    }
  };

  // Elements of a row in whole vectors, `whole(j)`, and in `part(j, count)` before the first that
  // is aligned (where they are streamed) and behind the last. No element's value depends on which.
  template <bool kStream, typename Next, typename Whole, typename Part>
  static inline __attribute__((always_inline)) void each_vector(const void* out, size_t cols,
                                                                const Next& next,
                                                                const Whole& whole,
                                                                const Part& part) {
    size_t j = 0;
    if constexpr (kStream) {
      j = Row::before_aligned(out, cols);
      if (j != 0) part(0, j);
    }
    for (; j + 2 * kLanes <= cols; j += 2 * kLanes) {
      next.ask(j);
      whole(j);
      whole(j + kLanes);
    }
    if (j + kLanes <= cols) {
      whole(j);
      j += kLanes;
    }
    if (j < cols) part(j, cols - j);
  }

  template <bool kStream, typename Next>
  static void scale_row(const RmsnormArgs& a, const void* x, void* y, Sum rstd, const Next& next) {
    const Acc by = Acc{} + rstd;
    each_vector<kStream>(
        y, a.cols, next,
        [&](size_t j) {
          Row::template store<kStream>(y, j, weighted(Row::load(x, j) * by, a.w, j));
        },
        [&](size_t j, size_t count) {
          const Acc value = Row::load_last(x, j, count) * by;
          Row::store_last(y, j, weighted_last(value, a.w, j, count), count);
        });
  }

  static bool may_stream(StoreHint hint, const void* row) {
    return hint == StoreHint::kNonTemporal && reinterpret_cast<uintptr_t>(row) % Row::kBytes == 0;
  }

  static void forward(const RmsnormArgs& a) {
    for (size_t i = 0; i < a.rows; ++i) {
      const void* x = at(a.x, a.x_pitch, i);
      const size_t then = i + 1 < a.rows ? i + 1 : i;
      if (a.residual == nullptr) {
        const Ahead<1> next{{at(a.x, a.x_pitch, then)}};
        leave_row(a, i, x, rstd_of(x, a.cols, Sum(a.eps)), next);
      } else {
        void* sum = at(a.sum, a.sum_pitch, i);
        const Ahead<2> next{{at(a.x, a.x_pitch, then), at(a.residual, a.residual_pitch, then)}};
        const void* residual = at(a.residual, a.residual_pitch, i);
        leave_row(a, i, sum, rstd_of_sum(x, residual, sum, a.cols, Sum(a.eps)), next);
      }
    }
    if (a.hint == StoreHint::kNonTemporal) Isa::stream_fence();
  }

  template <typename Next>
  static void leave_row(const RmsnormArgs& a, size_t i, const void* from, Sum rstd,
                        const Next& next) {
    void* y = at(a.y, a.y_pitch, i);
    if (may_stream(a.hint, y)) {
      scale_row<true>(a, from, y, rstd, next);
    } else {
      scale_row<false>(a, from, y, rstd, next);
    }
    // Last: of one element it may lie where what was read lay, which plans may ask of a tile.
    if (a.rstd != nullptr) static_cast<Sum*>(a.rstd)[i] = rstd;
  }

  // What comes from above of element j: dy_j w_j.
  template <typename Args>
  static inline __attribute__((always_inline)) Acc gradient(const Args& a, const void* dy,
                                                            size_t j) {
    return weighted(Row::load(dy, j), a.w, j);
  }
  template <typename Args>
  static Acc gradient_last(const Args& a, const void* dy, size_t j, size_t count) {
    return weighted_last(Row::load_last(dy, j, count), a.w, j, count);
  }

  struct RowArgs {
    const void *x, *dy;
    void *dx, *sums;
    Sum rstd;
    const void* w;
    size_t cols;
  };

  template <bool kStream>
  static void dx_row(const RowArgs& a, Sum dot, const Ahead<2>& next) {
    const Acc by = Acc{} + a.rstd, off = Acc{} + a.rstd * (a.rstd * (dot / Sum(a.cols)));
    each_vector<kStream>(
        a.dx, a.cols, next,
        [&](size_t j) {
          const Acc value = (gradient(a, a.dy, j) - Row::load(a.x, j) * off) * by;
          Row::template store<kStream>(a.dx, j, value);
        },
        [&](size_t j, size_t count) {
          const Acc value = gradient_last(a, a.dy, j, count) - Row::load_last(a.x, j, count) * off;
          Row::store_last(a.dx, j, value * by, count);
        });
  }

  // The sum over j of dy_j w_j x_j, and on the way what the row adds to its block's sums.
  template <bool kSums, bool kFirst>
  static Sum dot_row(const RowArgs& a) {
    using Sums = RowOf<Isa, Plain<Isa, Sum>>;
    const Acc by = Acc{} + a.rstd;
    return sum_row(
        a.cols,
        [&](size_t j) {
          const Acc x = Row::load(a.x, j), dy = Row::load(a.dy, j);
          if constexpr (kSums) {
            const Acc term = dy * (x * by);
            if constexpr (kFirst) {
              Sums::template store<false>(a.sums, j, term);
            } else {
              Sums::template store<false>(a.sums, j, Sums::load(a.sums, j) + term);
            }
          }
          return weighted(dy, a.w, j) * x;
        },
        [&](size_t j, size_t count) {
          const Acc x = Row::load_last(a.x, j, count), dy = Row::load_last(a.dy, j, count);
          if constexpr (kSums) {
            const Acc term = dy * (x * by);
            const Acc before = kFirst ? Acc{} : Sums::load_last(a.sums, j, count);
            Sums::store_last(a.sums, j, kFirst ? term : before + term, count);
          }
          return weighted_last(dy, a.w, j, count) * x;
        });
  }

  static Sum dot_of(const RowArgs& a, bool first) {
    if (a.sums == nullptr) return dot_row<false, false>(a);
    return first ? dot_row<true, true>(a) : dot_row<true, false>(a);
  }

  static void backward(const RmsnormBackwardArgs& a) {
    for (size_t i = 0; i < a.rows; ++i) {
      void* sums = a.sums == nullptr ? nullptr : at(a.sums, a.sums_pitch, i / a.block);
      const RowArgs row{at(a.x, a.x_pitch, i),
                        at(a.dy, a.dy_pitch, i),
                        at(a.dx, a.dx_pitch, i),
                        sums,
                        static_cast<const Sum*>(a.rstd)[i],
                        a.w,
                        a.cols};
      const Sum dot = dot_of(row, i % a.block == 0);
      const size_t then = i + 1 < a.rows ? i + 1 : i;
      const Ahead<2> next{{at(a.x, a.x_pitch, then), at(a.dy, a.dy_pitch, then)}};
      if (may_stream(a.hint, row.dx)) {
        dx_row<true>(row, dot, next);
      } else {
        dx_row<false>(row, dot, next);
      }
    }
    if (a.hint == StoreHint::kNonTemporal) Isa::stream_fence();
  }
};

template <typename Isa, typename X, typename F32>
constexpr void fill_rmsnorm_table(RmsnormTable& table, int type) {
  table.forward[type][0] = Rmsnorm<Isa, X, NoWeight>::forward;
  table.forward[type][1] = Rmsnorm<Isa, X, X>::forward;
  table.forward[type][2] = Rmsnorm<Isa, X, F32>::forward;
  table.backward[type][0] = Rmsnorm<Isa, X, NoWeight>::backward;
  table.backward[type][1] = Rmsnorm<Isa, X, X>::backward;
  table.backward[type][2] = Rmsnorm<Isa, X, F32>::backward;
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
