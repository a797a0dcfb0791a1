// rmsnorm and its gradient on every instruction set, against the formulas in f64: all types and
// weights, rows that are apart, begin anywhere and are streamed or not, in place, and what is no
// number.
#include "lib/exec/cpu/tile/rmsnorm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};
constexpr RmsnormWeight kWeights[] = {RmsnormWeight::kNone, RmsnormWeight::kSame,
                                      RmsnormWeight::kF32};

// How far neighbours of 1 are apart.
double step_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    default:
      return 0x1p-23;
  }
}

// Rows of one type, in memory with guards.
struct Matrix {
  Matrix(Random& random, DType of, size_t row_count, size_t columns, bool apart)
      : dtype(of),
        rows(row_count),
        cols(columns),
        pitch((columns + (apart ? size_t(random.between(0, 40)) : 0)) * dtype_bytes(of)),
        memory(rows == 0 ? 0 : (rows - 1) * pitch + cols * dtype_bytes(of),
               size_t(random.between(0, 15)) * dtype_bytes(of)) {}

  uint8_t* at(size_t row, size_t column) {
    return memory.data() + row * pitch + column * dtype_bytes(dtype);
  }
  double get(size_t row, size_t column) { return decode(dtype, at(row, column)); }
  void fill(Random& random, double low, double high) {
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) encode(dtype, random.real(low, high), at(i, j));
    }
  }
  // Neither before, nor behind, nor between rows.
  bool is_clean() {
    for (size_t i = 0; i + 1 < rows; ++i) {
      for (const uint8_t* p = at(i, cols); p < at(i + 1, 0); ++p) {
        if (*p != Guarded::kPoison) return false;
      }
    }
    return memory.guards_intact();
  }

  DType dtype;
  size_t rows, cols, pitch;
  Guarded memory;
};

struct Case {
  CpuIsa isa;
  DType dtype;
  RmsnormWeight weight;
  size_t rows, cols;
  bool second, in_place;
  double eps;
  StoreHint hint;

  DType sums() const { return accumulator(dtype); }
  DType weight_dtype() const { return weight == RmsnormWeight::kF32 ? DType::kF32 : dtype; }
};

// Long ones, too: where they are streamed one is written while the next is read.
size_t columns(Random& random) {
  const int64_t kind = random.between(0, 15);
  if (kind == 0) return size_t(random.between(1900, 9000));
  return size_t(kind < 8 ? random.between(1, 40) : random.between(41, 700));
}

Case random_case(Random& random, CpuIsa isa, DType dtype, RmsnormWeight weight) {
  return {.isa = isa,
          .dtype = dtype,
          .weight = weight,
          .rows = size_t(random.between(0, 9)),
          .cols = columns(random),
          .second = random.coin(),
          .in_place = random.between(0, 3) == 0,
          .eps = random.pick(std::vector<double>{0, 1e-6, 0.5}),
          .hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal};
}

std::string describe_case(const Case& c) {
  return std::string(cpu_isa_name(c.isa)) + " " + dtype_name(c.dtype) + ", weight " +
         std::to_string(int(c.weight)) + ", " + std::to_string(c.rows) + " x " +
         std::to_string(c.cols) + ", second " + std::to_string(c.second) + ", in place " +
         std::to_string(c.in_place) + ", streamed " +
         std::to_string(c.hint == StoreHint::kNonTemporal) + ", " + replay_line();
}

// Rounded once. `scale`: how large what was summed and rounded on the way has been.
void expect_near(DType dtype, DType sums, double got, double want, double scale) {
  const double may =
      std::abs(want) * step_of(dtype) / 2 + scale * 64 * step_of(sums) +
      (dtype == DType::kF16 ? 0x1p-24 : 1e-30);  // The smallest of f16 are far apart.
  ASSERT_NEAR(got, want, may);
}

void check_forward(Random& random, const Case& c) {
  SCOPED_TRACE(describe_case(c));
  Matrix x(random, c.dtype, c.rows, c.cols, true), y(random, c.dtype, c.rows, c.cols, true);
  Matrix w(random, c.weight_dtype(), 1, c.cols, false), rstd(random, c.sums(), 1, c.rows, false);
  x.fill(random, -3, 3);
  w.fill(random, -2, 2);
  Matrix before = x;
  Matrix& out = c.in_place ? x : y;
  const RmsnormArgs args{.x = x.at(0, 0),
                         .w = c.weight == RmsnormWeight::kNone ? nullptr : w.at(0, 0),
                         .y = out.at(0, 0),
                         .rstd = c.second ? rstd.at(0, 0) : nullptr,
                         .x_pitch = int64_t(x.pitch),
                         .y_pitch = int64_t(out.pitch),
                         .rows = c.rows,
                         .cols = c.cols,
                         .eps = c.eps,
                         .hint = c.hint};
  select_rmsnorm(c.dtype, c.weight, c.isa)(args);
  for (size_t i = 0; i < c.rows; ++i) {
    double squares = 0;
    for (size_t j = 0; j < c.cols; ++j) squares += before.get(i, j) * before.get(i, j);
    const double by = 1 / std::sqrt(squares / double(c.cols) + c.eps);
    if (c.second) expect_near(c.sums(), c.sums(), rstd.get(0, i), by, by);
    for (size_t j = 0; j < c.cols; ++j) {
      const double weight = c.weight == RmsnormWeight::kNone ? 1 : w.get(0, j);
      const double want = before.get(i, j) * by * weight;
      expect_near(c.dtype, c.sums(), out.get(i, j), want, std::abs(want));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (Matrix* each : {&x, &y, &w, &rstd}) ASSERT_TRUE(each->is_clean());
}

// With a residual: the total as its type holds it, then bit for bit what rows of that give.
void check_added(Random& random, const Case& c) {
  SCOPED_TRACE(describe_case(c));
  const auto rows = [&] { return Matrix(random, c.dtype, c.rows, c.cols, true); };
  Matrix x = rows(), residual = rows(), y = rows(), total = rows(), wanted = rows(), of = rows();
  Matrix w(random, c.weight_dtype(), 1, c.cols, false), rstd(random, c.sums(), 1, c.rows, false),
      wanted_rstd(random, c.sums(), 1, c.rows, false);
  x.fill(random, -3, 3);
  residual.fill(random, -3, 3);
  w.fill(random, -2, 2);
  for (size_t i = 0; i < c.rows; ++i) {
    for (size_t j = 0; j < c.cols; ++j)
      encode(c.dtype, x.get(i, j) + residual.get(i, j), of.at(i, j));
  }
  const bool added_in_place = random.coin();
  Matrix &out = c.in_place ? x : y, &sum = added_in_place ? residual : total;
  RmsnormArgs args{.x = of.at(0, 0),
                   .w = c.weight == RmsnormWeight::kNone ? nullptr : w.at(0, 0),
                   .y = wanted.at(0, 0),
                   .rstd = c.second ? wanted_rstd.at(0, 0) : nullptr,
                   .x_pitch = int64_t(of.pitch),
                   .y_pitch = int64_t(wanted.pitch),
                   .rows = c.rows,
                   .cols = c.cols,
                   .eps = c.eps,
                   .hint = c.hint};
  const RmsnormFn kernel = select_rmsnorm(c.dtype, c.weight, c.isa);
  kernel(args);
  args.x = x.at(0, 0), args.x_pitch = int64_t(x.pitch);
  args.residual = residual.at(0, 0), args.residual_pitch = int64_t(residual.pitch);
  args.sum = sum.at(0, 0), args.sum_pitch = int64_t(sum.pitch);
  args.y = out.at(0, 0), args.y_pitch = int64_t(out.pitch);
  args.rstd = c.second ? rstd.at(0, 0) : nullptr;
  kernel(args);
  const size_t bytes = c.cols * dtype_bytes(c.dtype);
  for (size_t i = 0; i < c.rows; ++i) {
    ASSERT_EQ(std::memcmp(sum.at(i, 0), of.at(i, 0), bytes), 0) << i;
    ASSERT_EQ(std::memcmp(out.at(i, 0), wanted.at(i, 0), bytes), 0) << i;
    if (c.second) {
      ASSERT_EQ(rstd.get(0, i), wanted_rstd.get(0, i)) << i;
    }
  }
  for (Matrix* each : {&x, &residual, &y, &total, &w, &rstd}) ASSERT_TRUE(each->is_clean());
}

void check_backward(Random& random, const Case& c) {
  SCOPED_TRACE(describe_case(c));
  const size_t block = size_t(random.between(1, 4)), blocks = (c.rows + block - 1) / block;
  Matrix x(random, c.dtype, c.rows, c.cols, true), dy(random, c.dtype, c.rows, c.cols, true);
  Matrix dx(random, c.dtype, c.rows, c.cols, true), sums(random, c.sums(), blocks, c.cols, true);
  Matrix w(random, c.weight_dtype(), 1, c.cols, false), rstd(random, c.sums(), 1, c.rows, false);
  for (Matrix* each : {&x, &dy, &w, &rstd}) each->fill(random, -2, 2);
  sums.fill(random, 900, 1000);  // What lay there: poison is next to nothing as a number.
  const RmsnormBackwardArgs args{.x = x.at(0, 0),
                                 .dy = dy.at(0, 0),
                                 .w = c.weight == RmsnormWeight::kNone ? nullptr : w.at(0, 0),
                                 .rstd = rstd.at(0, 0),
                                 .dx = dx.at(0, 0),
                                 .sums = c.second ? sums.at(0, 0) : nullptr,
                                 .x_pitch = int64_t(x.pitch),
                                 .dy_pitch = int64_t(dy.pitch),
                                 .dx_pitch = int64_t(dx.pitch),
                                 .sums_pitch = int64_t(sums.pitch),
                                 .rows = c.rows,
                                 .cols = c.cols,
                                 .block = block,
                                 .hint = c.hint};
  select_rmsnorm_backward(c.dtype, c.weight, c.isa)(args);
  const auto weight = [&](size_t j) { return c.weight == RmsnormWeight::kNone ? 1 : w.get(0, j); };
  for (size_t i = 0; i < c.rows; ++i) {
    double dot = 0, all = 0;
    for (size_t j = 0; j < c.cols; ++j) {
      dot += dy.get(i, j) * weight(j) * x.get(i, j);
      all += std::abs(dy.get(i, j) * weight(j) * x.get(i, j));
    }
    const double by = rstd.get(0, i);
    for (size_t j = 0; j < c.cols; ++j) {
      const double one = dy.get(i, j) * weight(j), off = x.get(i, j) * by * by / double(c.cols);
      const double scale = std::abs(by) * (std::abs(one) + std::abs(off) * all);
      expect_near(c.dtype, c.sums(), dx.get(i, j), by * (one - off * dot), scale);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (size_t b = 0; c.second && b < blocks; ++b) {
    for (size_t j = 0; j < c.cols; ++j) {
      double sum = 0, all = 0;
      for (size_t i = b * block; i < std::min(c.rows, (b + 1) * block); ++i) {
        sum += dy.get(i, j) * x.get(i, j) * rstd.get(0, i);
        all += std::abs(dy.get(i, j) * x.get(i, j) * rstd.get(0, i));
      }
      expect_near(c.sums(), c.sums(), sums.get(b, j), sum, all);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (Matrix* each : {&x, &dy, &dx, &w, &rstd, &sums}) ASSERT_TRUE(each->is_clean());
}

template <typename Check>
void check_all(uint64_t salt, int rounds, const Check& check) {
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) {
      for (const RmsnormWeight weight : kWeights) {
        for (int round = 0; round < rounds; ++round) {
          Random random(++salt);
          check(random, random_case(random, isa, dtype, weight));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Rmsnorm, IsWhatTheFormulaSays) { check_all(0, 30, check_forward); }
TEST(Rmsnorm, OfATotalIsThatOfItsRows) { check_all(2'000'000, 30, check_added); }
TEST(Rmsnorm, TheGradientIsWhatTheFormulasSay) { check_all(1'000'000, 30, check_backward); }

// Each sum is made in one order, whatever rows a call has beside: the same bits.
TEST(Rmsnorm, RowsDoNotKnowEachOther) {
  for (const CpuIsa isa : isas()) {
    Random random(2'000'000 + uint64_t(isa));
    Matrix x(random, DType::kBF16, 6, 333, true), all(random, DType::kBF16, 6, 333, false);
    x.fill(random, -3, 3);
    RmsnormArgs args{.x = x.at(0, 0),
                     .y = all.at(0, 0),
                     .x_pitch = int64_t(x.pitch),
                     .y_pitch = int64_t(all.pitch),
                     .rows = 6,
                     .cols = 333,
                     .eps = 1e-5};
    const RmsnormFn kernel = select_rmsnorm(DType::kBF16, RmsnormWeight::kNone, isa);
    kernel(args);
    Matrix one(random, DType::kBF16, 1, 333, false);
    for (size_t i = 0; i < 6; ++i) {
      args.x = x.at(i, 0);
      args.y = one.at(0, 0);
      args.rows = 1;
      args.hint = i % 2 == 0 ? StoreHint::kNonTemporal : StoreHint::kNormal;
      kernel(args);
      EXPECT_EQ(std::memcmp(one.at(0, 0), all.at(i, 0), 333 * 2), 0) << cpu_isa_name(isa);
    }
  }
}

// Nor whether a long row is read while the one before it is written.
TEST(Rmsnorm, LongRowsHaveTheirBitsBesideOthers) {
  constexpr size_t kRows = 5, kBlock = 2;
  uint64_t salt = 6'000'000;
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) {
      for (const RmsnormWeight weight : kWeights) {
        Random random(++salt);
        const size_t cols = size_t(random.between(1900, 9000)), bytes = cols * dtype_bytes(dtype);
        const DType sums = accumulator(dtype);
        SCOPED_TRACE(std::string(cpu_isa_name(isa)) + " " + dtype_name(dtype) + ", weight " +
                     std::to_string(int(weight)) + ", " + std::to_string(cols) + replay_line());
        Matrix x(random, dtype, kRows, cols, true), dy(random, dtype, kRows, cols, true);
        Matrix w(random, weight == RmsnormWeight::kF32 ? DType::kF32 : dtype, 1, cols, false);
        Matrix rstd(random, sums, 1, kRows, false);
        for (Matrix* each : {&x, &dy, &w, &rstd}) each->fill(random, -2, 2);
        const auto forward = [&](Matrix& y, size_t row, size_t rows, StoreHint hint) {
          select_rmsnorm(dtype, weight, isa)({.x = x.at(row, 0),
                                              .w = w.at(0, 0),
                                              .y = y.at(row, 0),
                                              .x_pitch = int64_t(x.pitch),
                                              .y_pitch = int64_t(y.pitch),
                                              .rows = rows,
                                              .cols = cols,
                                              .eps = 1e-5,
                                              .hint = hint});
        };
        const auto backward = [&](Matrix& dx, Matrix& block, StoreHint hint) {
          select_rmsnorm_backward(dtype, weight, isa)({.x = x.at(0, 0),
                                                       .dy = dy.at(0, 0),
                                                       .w = w.at(0, 0),
                                                       .rstd = rstd.at(0, 0),
                                                       .dx = dx.at(0, 0),
                                                       .sums = block.at(0, 0),
                                                       .x_pitch = int64_t(x.pitch),
                                                       .dy_pitch = int64_t(dy.pitch),
                                                       .dx_pitch = int64_t(dx.pitch),
                                                       .sums_pitch = int64_t(block.pitch),
                                                       .rows = kRows,
                                                       .cols = cols,
                                                       .block = kBlock,
                                                       .hint = hint});
        };
        Matrix y(random, dtype, kRows, cols, true), alone(random, dtype, kRows, cols, true);
        forward(y, 0, kRows, StoreHint::kNonTemporal);
        for (size_t i = 0; i < kRows; ++i) forward(alone, i, 1, StoreHint::kNormal);
        Matrix dx(random, dtype, kRows, cols, true), dx_alone(random, dtype, kRows, cols, true);
        Matrix block(random, sums, 3, cols, false), block_alone(random, sums, 3, cols, false);
        backward(dx, block, StoreHint::kNonTemporal);
        backward(dx_alone, block_alone, StoreHint::kNormal);
        for (size_t i = 0; i < kRows; ++i) {
          ASSERT_EQ(std::memcmp(y.at(i, 0), alone.at(i, 0), bytes), 0) << "row " << i;
          ASSERT_EQ(std::memcmp(dx.at(i, 0), dx_alone.at(i, 0), bytes), 0) << "row " << i;
        }
        for (size_t i = 0; i < 3; ++i) {
          ASSERT_EQ(std::memcmp(block.at(i, 0), block_alone.at(i, 0), cols * dtype_bytes(sums)), 0);
        }
        for (Matrix* each : {&y, &dx, &block}) EXPECT_TRUE(each->is_clean());
      }
    }
  }
}

// Nor where results lie, and how they go there: vectors begin elsewhere then, at both ends of a
// row.
TEST(Rmsnorm, BitsDoNotDependOnWhereResultsLie) {
  uint64_t salt = 5'000'000;
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) {
      for (const RmsnormWeight weight : kWeights) {
        Random random(++salt);
        const size_t cols = size_t(random.between(1, 200)), bytes = cols * dtype_bytes(dtype);
        const DType sums = accumulator(dtype);
        Matrix x(random, dtype, 1, cols, false), dy(random, dtype, 1, cols, false);
        Matrix w(random, weight == RmsnormWeight::kF32 ? DType::kF32 : dtype, 1, cols, false);
        Matrix rstd(random, sums, 1, 1, false);
        for (Matrix* each : {&x, &dy, &w, &rstd}) each->fill(random, -2, 2);
        std::vector<uint8_t> first_y, first_dx;
        for (size_t off = 0; off < 40; ++off) {
          Guarded y(bytes, off * dtype_bytes(dtype)), dx(bytes, off * dtype_bytes(dtype));
          const StoreHint hint = off % 2 == 0 ? StoreHint::kNonTemporal : StoreHint::kNormal;
          select_rmsnorm(dtype, weight, isa)({.x = x.at(0, 0),
                                              .w = w.at(0, 0),
                                              .y = y.data(),
                                              .rows = 1,
                                              .cols = cols,
                                              .eps = 1e-5,
                                              .hint = hint});
          select_rmsnorm_backward(dtype, weight, isa)({.x = x.at(0, 0),
                                                       .dy = dy.at(0, 0),
                                                       .w = w.at(0, 0),
                                                       .rstd = rstd.at(0, 0),
                                                       .dx = dx.data(),
                                                       .rows = 1,
                                                       .cols = cols,
                                                       .hint = hint});
          const std::vector<uint8_t> is_y(y.data(), y.data() + bytes),
              is_dx(dx.data(), dx.data() + bytes);
          if (off == 0) {
            first_y = is_y;
            first_dx = is_dx;
          }
          ASSERT_EQ(is_y, first_y)
              << cpu_isa_name(isa) << " " << dtype_name(dtype) << replay_line();
          ASSERT_EQ(is_dx, first_dx)
              << cpu_isa_name(isa) << " " << dtype_name(dtype) << " weight " << int(weight) << ", "
              << cols << ", at " << off << ", " << replay_line();
        }
      }
    }
  }
}

// What is no number in a row is none in all of it, and in no other row.
TEST(Rmsnorm, WhatIsNoNumberStaysInItsRow) {
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) {
      Random random(3'000'000 + uint64_t(isa));
      Matrix x(random, dtype, 3, 75, true), y(random, dtype, 3, 75, true);
      x.fill(random, 1, 2);
      encode(dtype, std::numeric_limits<double>::quiet_NaN(), x.at(0, 74));
      encode(dtype, std::numeric_limits<double>::infinity(), x.at(1, 3));
      select_rmsnorm(dtype, RmsnormWeight::kNone, isa)({.x = x.at(0, 0),
                                                        .y = y.at(0, 0),
                                                        .x_pitch = int64_t(x.pitch),
                                                        .y_pitch = int64_t(y.pitch),
                                                        .rows = 3,
                                                        .cols = 75});
      for (size_t j = 0; j < 75; ++j) {
        EXPECT_TRUE(std::isnan(y.get(0, j)));
        // 1 / sqrt(inf) is 0: of what is finite 0, of the infinite one nothing.
        EXPECT_EQ(j == 3, std::isnan(y.get(1, j)));
        EXPECT_TRUE(j == 3 || y.get(1, j) == 0);
        EXPECT_TRUE(std::isfinite(y.get(2, j)));
      }
    }
  }
}

TEST(Rmsnorm, OfRowsOfZerosWithoutEpsThereIsNoNumber) {
  for (const CpuIsa isa : isas()) {
    Random random(4'000'000);
    Matrix x(random, DType::kF32, 1, 20, false), y(random, DType::kF32, 1, 20, false);
    Matrix rstd(random, DType::kF32, 1, 1, false);
    x.fill(random, 0, 0);
    RmsnormArgs args{.x = x.at(0, 0),
                     .y = y.at(0, 0),
                     .rstd = rstd.at(0, 0),
                     .x_pitch = int64_t(x.pitch),
                     .y_pitch = int64_t(y.pitch),
                     .rows = 1,
                     .cols = 20};
    const RmsnormFn kernel = select_rmsnorm(DType::kF32, RmsnormWeight::kNone, isa);
    kernel(args);
    EXPECT_TRUE(std::isinf(rstd.get(0, 0)));
    EXPECT_TRUE(std::isnan(y.get(0, 19)));
    args.eps = 0.25;
    kernel(args);
    EXPECT_EQ(rstd.get(0, 0), 2);
    EXPECT_EQ(y.get(0, 19), 0);
  }
}

// A plan may have a task of one element leave its rstd where its x, or its weight, lay.
TEST(Rmsnorm, OfOneElementWhatIsReadMayBecomeItsRstd) {
  for (const CpuIsa isa : isas()) {
    for (const bool over_x : {true, false}) {
      for (const bool added : {true, false}) {
        float x = 3, residual = 1, total = 0, weight = 5, y = 0;
        RmsnormArgs args{.x = &x, .w = &weight, .y = &y, .rows = 1, .cols = 1, .eps = 7};
        args.rstd = over_x ? &x : &weight;
        if (added) args.residual = &residual, args.sum = &total;
        select_rmsnorm(DType::kF32, RmsnormWeight::kSame, isa)(args);
        const double of = added ? 4 : 3, rstd = 1 / std::sqrt(of * of + 7);
        EXPECT_NEAR(y, of * rstd * 5, 1e-5) << cpu_isa_name(isa) << over_x << added;
        EXPECT_NEAR(*static_cast<float*>(args.rstd), rstd, 1e-6);
      }
    }
  }
}

TEST(Rmsnorm, IntegersHaveNoKernel) {
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : {DType::kI32, DType::kI64}) {
      EXPECT_EQ(select_rmsnorm(dtype, RmsnormWeight::kNone, isa), nullptr);
      EXPECT_EQ(select_rmsnorm_backward(dtype, RmsnormWeight::kNone, isa), nullptr);
    }
  }
}

}  // namespace
}  // namespace sk::cpu
