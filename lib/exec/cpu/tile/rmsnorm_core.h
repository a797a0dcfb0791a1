// The loops of rmsnorm, as templates over an instruction set (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_

#include "lib/exec/cpu/tile/rmsnorm_table.h"
#include "lib/exec/cpu/tile/row_core.h"

namespace sk::cpu {

// No weight is a weight of ones, which costs nothing.
struct NoWeight {};

template <typename Isa, typename X, typename W>
struct Rmsnorm {
  using Acc = typename X::Acc;
  using Sum = typename X::Sum;
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
  // `beside` is told of each group of vectors.
  template <typename Beside, typename Term, typename Last>
  static inline __attribute__((always_inline)) Sum sum_row(size_t cols, Beside& beside,
                                                           const Term& term, const Last& last) {
    double strips = 0;
    size_t j = 0;
    while (cols - j > kStrip) {
      Acc parts[kUnroll] = {};
      for (const size_t end = j + kStrip; j < end; j += kUnroll * kLanes) {
        for (size_t v = 0; v < kUnroll; ++v) parts[v] += term(j + v * kLanes);
        beside.group(j);
      }
      strips += double(sum_of(parts));
    }
    Acc parts[kUnroll] = {};
    for (; j + kUnroll * kLanes <= cols; j += kUnroll * kLanes) {
      for (size_t v = 0; v < kUnroll; ++v) parts[v] += term(j + v * kLanes);
      beside.group(j);
    }
    for (; j + kLanes <= cols; j += kLanes) parts[0] += term(j);
    if (j < cols) parts[1] += last(j, cols - j);
    return Sum(strips + double(sum_of(parts)));
  }

  struct Nothing {
    static void group(size_t) {}
  };

  static Sum squares_of(const void* x, size_t cols) {
    Nothing nothing;
    return sum_row(
        cols, nothing,
        [&](size_t j) {
          const Acc value = Row::load(x, j);
          return value * value;
        },
        [&](size_t j, size_t count) {
          const Acc value = Row::load_last(x, j, count);
          return value * value;
        });
  }
  static Sum rstd_from(Sum squares, size_t cols, Sum eps) {
    const Sum mean = squares / Sum(cols) + eps;
    if constexpr (sizeof(Sum) == 8) return 1 / __builtin_sqrt(mean);
    return 1 / __builtin_sqrtf(mean);
  }

  // Of x and the residual, whose sum is left as it is stored.
  static Sum squares_of_sum(const void* x, const void* residual, void* sum, size_t cols) {
    Nothing nothing;
    return sum_row(
        cols, nothing,
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
  }

  static const char* at(const void* base, int64_t pitch, size_t row) {
    return static_cast<const char*>(base) + int64_t(row) * pitch;
  }
  static char* at(void* base, int64_t pitch, size_t row) {
    return static_cast<char*>(base) + int64_t(row) * pitch;
  }

  // Asks for the lines of some rows at the place of `kVectors` vectors. Addresses behind the last
  // row are asked for nothing.
  template <size_t kRows, size_t kVectors>
  struct Ahead {
    const char* row[kRows];

    inline __attribute__((always_inline)) void ask(size_t j) const {
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t byte = 0; byte < kVectors * sizeof(typename X::Mem); byte += 64) {
          __builtin_prefetch(row[r] + j * Row::kBytes + byte, 0, 3);
        }
      }
    }
  };

  // A row that is written, in whole vectors `whole(j)`, and in `part(j, count)` before the first
  // that is aligned (where they are streamed) and behind the last. No element's value depends on
  // which.
  template <bool kStream, typename Whole, typename Part>
  struct Writing {
    Whole whole;
    Part part;
    size_t cols, next = 0;

    Writing(const void* out, size_t columns, Whole w, Part p) : whole(w), part(p), cols(columns) {
      if constexpr (kStream) {
        next = Row::before_aligned(out, cols);
        if (next != 0) part(0, next);
      }
    }
    inline __attribute__((always_inline)) void group() {
      if (next + kUnroll * kLanes > cols) return;
      for (size_t v = 0; v < kUnroll; ++v) whole(next + v * kLanes);
      next += kUnroll * kLanes;
    }
    inline __attribute__((always_inline)) void rest() {
      for (; next + kLanes <= cols; next += kLanes) whole(next);
      if (next < cols) part(next, cols - next);
    }
    // Meanwhile what is read next comes nearer.
    template <typename Next>
    inline __attribute__((always_inline)) void alone(const Next& ahead) {
      for (; next + 2 * kLanes <= cols; next += 2 * kLanes) {
        ahead.ask(next);
        whole(next);
        whole(next + kLanes);
      }
      rest();
    }
  };
  template <bool kStream, typename Whole, typename Part>
  static inline __attribute__((always_inline)) auto writing(const void* out, size_t cols,
                                                            Whole whole, Part part) {
    return Writing<kStream, Whole, Part>(out, cols, whole, part);
  }

  // One row is written while the next is read: memory stands still in none of the two, as it does
  // where rows that the nearest cache cannot hold twice are first summed, then written. What is
  // read is asked for a little before. Of the copy's bandwidth (Zen 3, two cores, gradients with a
  // weight's, f32): rows of 16 KB 0.67 to 0.77, of 64 KB 0.62 to 0.76, of 4 KB 0.80 to 0.72, so
  // that short ones go one after the other. So do the gradients of 16 bits, where computing takes
  // longer.
  template <typename Written, typename Next>
  struct Beside {
    Written& row;
    Next ahead;

    inline __attribute__((always_inline)) void group(size_t j) {
      ahead.ask(j);
      row.group();
    }
  };
  static constexpr size_t kBesideBytes = 8 << 10;
  static bool goes_beside(size_t cols) { return cols * Row::kBytes >= kBesideBytes; }

  static bool may_stream(StoreHint hint, const void* row) {
    return hint == StoreHint::kNonTemporal && reinterpret_cast<uintptr_t>(row) % Row::kBytes == 0;
  }

  template <bool kStream>
  static inline __attribute__((always_inline)) auto scaled(const RmsnormArgs& a, const void* x,
                                                           void* y, Sum rstd) {
    const Acc by = Acc{} + rstd;
    const void* w = a.w;
    return writing<kStream>(
        y, a.cols,
        [=](size_t j) __attribute__((always_inline)) {
          Row::template store<kStream>(y, j, weighted(Row::load(x, j) * by, w, j));
        },
        [=](size_t j, size_t count) {
          const Acc value = Row::load_last(x, j, count) * by;
          Row::store_last(y, j, weighted_last(value, w, j, count), count);
        });
  }
  template <typename Next>
  static void scale_row(const RmsnormArgs& a, const void* x, void* y, Sum rstd, const Next& next) {
    if (may_stream(a.hint, y)) {
      scaled<true>(a, x, y, rstd).alone(next);
    } else {
      scaled<false>(a, x, y, rstd).alone(next);
    }
  }
  static void forward(const RmsnormArgs& a) {
    for (size_t i = 0; i < a.rows; ++i) {
      const void* x = at(a.x, a.x_pitch, i);
      void* y = at(a.y, a.y_pitch, i);
      const size_t then = i + 1 < a.rows ? i + 1 : i;
      const char* next = at(a.x, a.x_pitch, then);
      Sum rstd;
      if (a.residual == nullptr) {
        rstd = rstd_from(squares_of(x, a.cols), a.cols, Sum(a.eps));
        scale_row(a, x, y, rstd, Ahead<1, 2>{{next}});
      } else {
        const void* residual = at(a.residual, a.residual_pitch, i);
        void* sum = at(a.sum, a.sum_pitch, i);
        rstd = rstd_from(squares_of_sum(x, residual, sum, a.cols), a.cols, Sum(a.eps));
        const Ahead<2, 2> ahead{{next, at(a.residual, a.residual_pitch, then)}};
        scale_row(a, sum, y, rstd, ahead);
      }
      // Last: of one element it may lie where what was read lay, which plans may ask of a tile.
      if (a.rstd != nullptr) static_cast<Sum*>(a.rstd)[i] = rstd;
    }
    if (a.hint == StoreHint::kNonTemporal) Isa::stream_fence();
  }

  struct RowArgs {
    const char *x, *dy;
    void *dx, *sums;
    Sum rstd;
    const void* w;
    size_t cols;
    bool first;  // Of its block.
  };
  static RowArgs row_of(const RmsnormBackwardArgs& a, size_t i) {
    return {at(a.x, a.x_pitch, i),
            at(a.dy, a.dy_pitch, i),
            at(a.dx, a.dx_pitch, i),
            a.sums == nullptr ? nullptr : at(a.sums, a.sums_pitch, i / a.block),
            static_cast<const Sum*>(a.rstd)[i],
            a.w,
            a.cols,
            i % a.block == 0};
  }

  template <bool kStream>
  static inline __attribute__((always_inline)) auto dx_of(const RowArgs& a, Sum dot) {
    const Acc by = Acc{} + a.rstd, off = Acc{} + a.rstd * (a.rstd * (dot / Sum(a.cols)));
    const void *x = a.x, *dy = a.dy, *w = a.w;
    void* dx = a.dx;
    // What comes from above of element j is dy_j w_j.
    return writing<kStream>(
        dx, a.cols,
        [=](size_t j) __attribute__((always_inline)) {
          const Acc value = weighted(Row::load(dy, j), w, j) - Row::load(x, j) * off;
          Row::template store<kStream>(dx, j, value * by);
        },
        [=](size_t j, size_t count) {
          const Acc above = weighted_last(Row::load_last(dy, j, count), w, j, count);
          Row::store_last(dx, j, (above - Row::load_last(x, j, count) * off) * by, count);
        });
  }

  // The sum over j of dy_j w_j x_j, and on the way what the row adds to its block's sums.
  template <bool kSums, bool kFirst, typename Beside>
  static inline __attribute__((always_inline)) Sum dot_row(const RowArgs& a, Beside& beside) {
    using Sums = RowOf<Isa, typename X::InRows>;
    const Acc by = Acc{} + a.rstd;
    return sum_row(
        a.cols, beside,
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
  template <typename Beside>
  static Sum dot_of(const RowArgs& a, Beside& beside) {
    if (a.sums == nullptr) return dot_row<false, false>(a, beside);
    return a.first ? dot_row<true, true>(a, beside) : dot_row<true, false>(a, beside);
  }

  // The dot of `then`.
  static Sum dx_beside(const RowArgs& a, Sum dot, const RowArgs& then) {
    constexpr size_t kAhead = 512;
    auto row = dx_of<true>(a, dot);
    using Next = Ahead<2, kUnroll>;
    Beside<decltype(row), Next> beside{row, Next{{then.x + kAhead, then.dy + kAhead}}};
    const Sum next = dot_of(then, beside);
    row.rest();
    return next;
  }

  static void backward(const RmsnormBackwardArgs& a) {
    Sum dot = 0;
    bool known = false;  // The row's dot: it was read beside the one before.
    for (size_t i = 0; i < a.rows; ++i) {
      const RowArgs row = row_of(a, i), then = row_of(a, i + 1 < a.rows ? i + 1 : i);
      Nothing nothing;
      if (!known) dot = dot_of(row, nothing);
      const bool streams = may_stream(a.hint, row.dx);
      known = Row::kBytes >= 4 && streams && i + 1 < a.rows && goes_beside(a.cols);
      const Ahead<2, 2> ahead{{then.x, then.dy}};
      if (known) {
        dot = dx_beside(row, dot, then);
      } else if (streams) {
        dx_of<true>(row, dot).alone(ahead);
      } else {
        dx_of<false>(row, dot).alone(ahead);
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

// `B` and `F`: bf16, and the floats that go with it.
template <typename Isa, typename B = Bf16<Isa>, typename F = Plain<Isa, float>>
constexpr RmsnormTable make_rmsnorm_table() {
  RmsnormTable table{};
  fill_rmsnorm_table<Isa, Plain<Isa, float>, Plain<Isa, float>>(table, 0);
  fill_rmsnorm_table<Isa, Plain<Isa, double>, F32OfF64<Isa>>(table, 1);
  fill_rmsnorm_table<Isa, B, F>(table, 2);
  fill_rmsnorm_table<Isa, F16<Isa>, Plain<Isa, float>>(table, 3);
  return table;
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_RMSNORM_CORE_H_
