#include "tests/support/rows_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/op/dtype.h"

namespace sk::testing_support {
namespace {

int32_t sums_of(int32_t dtype) { return dtype == SK_F64 ? SK_F64 : SK_F32; }

// The step between neighbours of 1.
double step_of(int32_t dtype) {
  switch (dtype) {
    case SK_F64:
      return 0x1p-52;
    case SK_BF16:
      return 0x1p-7;
    case SK_F16:
      return 0x1p-10;
    default:
      return 0x1p-23;
  }
}

RowsArray make(int32_t dtype, int64_t rows, int64_t cols, int64_t ld, std::mt19937_64* random) {
  RowsArray out{dtype, rows, cols, ld, {}};
  const int64_t count = ld == 0 ? cols : rows == 0 ? 0 : (rows - 1) * ld + cols;
  out.bytes.assign(size_t(count) * dtype_bytes(DType(dtype)), std::byte(0xa5));
  std::normal_distribution<double> normal;
  for (int64_t row = 0; random != nullptr && row < (ld == 0 ? 1 : rows); ++row) {
    for (int64_t col = 0; col < cols; ++col) out.set(out.at(row, col), normal(*random));
  }
  return out;
}

double rstd_of(const RowsCase& c, const RowsArray& x, int64_t row) {
  double squares = 0;
  for (int64_t j = 0; j < c.n; ++j) squares += x.get(x.at(row, j)) * x.get(x.at(row, j));
  return 1 / std::sqrt(squares / double(c.n) + c.eps);
}

// Rounded once. `scale` is how large what was summed and rounded on the way has been.
std::string differs(const char* name, const RowsArray& is, int64_t row, int64_t col, double want,
                    double scale) {
  const double got = is.get(is.at(row, col));
  const double sums = step_of(sums_of(is.dtype)) * 64;
  const double may = std::abs(want) * step_of(is.dtype) / 2 + scale * sums + 1e-30;
  // The smallest numbers of f16 are far apart.
  const double least = is.dtype == SK_F16 ? 0x1p-24 : 0;
  if (std::abs(got - want) <= may + least) return "";
  return fmt::format("{}[{}, {}] is {}, it must be {}", name, row, col, got, want);
}

std::string gap_differs(const char* name, const RowsArray& before, const RowsArray& after) {
  const size_t element = dtype_bytes(DType(before.dtype));
  for (int64_t row = 0; row + 1 < before.rows && before.ld > 0; ++row) {
    const size_t from = size_t(row * before.ld + before.cols) * element;
    const size_t to = size_t((row + 1) * before.ld) * element;
    if (std::memcmp(&before.bytes[from], &after.bytes[from], to - from) == 0) continue;
    return fmt::format("{} is written behind its row {}", name, row);
  }
  return "";
}

std::string changed(const char* name, const RowsArray& before, const RowsArray& after) {
  return before.bytes == after.bytes ? "" : fmt::format("{} was written", name);
}

std::string wrong_forward(const RowsCase& c, const RowsData& before, const RowsData& after) {
  const RowsArray& y = c.in_place ? after.x : after.y;
  std::string wrong = gap_differs("y", c.in_place ? before.x : before.y, y);
  for (int64_t i = 0; wrong.empty() && i < c.m; ++i) {
    const double rstd = rstd_of(c, before.x, i);
    if (c.second) wrong = differs("rstd", after.rstd, 0, i, rstd, rstd);
    for (int64_t j = 0; wrong.empty() && j < c.n; ++j) {
      const double w = c.weight ? before.weight.get(j) : 1;
      const double want = before.x.get(before.x.at(i, j)) * rstd * w;
      wrong = differs("y", y, i, j, want, std::abs(want));
    }
  }
  if (wrong.empty() && !c.in_place) wrong = changed("x", before.x, after.x);
  return wrong.empty() ? changed("weight", before.weight, after.weight) : wrong;
}

std::string wrong_backward(const RowsCase& c, const RowsData& before, const RowsData& after) {
  std::string wrong = gap_differs("dx", before.dx, after.dx);
  const auto x = [&](int64_t i, int64_t j) { return before.x.get(before.x.at(i, j)); };
  const auto dy = [&](int64_t i, int64_t j) { return before.dy.get(before.dy.at(i, j)); };
  const auto w = [&](int64_t j) { return c.weight ? before.weight.get(j) : 1; };
  for (int64_t i = 0; wrong.empty() && i < c.m; ++i) {
    const double rstd = before.rstd.get(i);
    double dot = 0, all = 0;
    for (int64_t j = 0; j < c.n; ++j) {
      dot += dy(i, j) * w(j) * x(i, j);
      all += std::abs(dy(i, j) * w(j) * x(i, j));
    }
    for (int64_t j = 0; wrong.empty() && j < c.n; ++j) {
      const double one = dy(i, j) * w(j), off = x(i, j) * rstd * rstd / double(c.n);
      const double scale = std::abs(rstd) * (std::abs(one) + std::abs(off) * all);
      wrong = differs("dx", after.dx, i, j, rstd * (one - off * dot), scale);
    }
  }
  for (int64_t j = 0; wrong.empty() && c.second && j < c.n; ++j) {
    double sum = 0, all = 0;
    for (int64_t i = 0; i < c.m; ++i) {
      sum += dy(i, j) * x(i, j) * before.rstd.get(i);
      all += std::abs(dy(i, j) * x(i, j) * before.rstd.get(i));
    }
    // Of weights of x's type sums are kept in the type of sums and rounded once.
    wrong = differs("dweight", after.dweight, 0, j, sum,
                    c.dtype == SK_F64 && c.dweight_dtype == SK_F32 ? std::abs(sum) : all);
  }
  for (const auto& each :
       {changed("x", before.x, after.x), changed("dy", before.dy, after.dy),
        changed("rstd", before.rstd, after.rstd), changed("weight", before.weight, after.weight)}) {
    if (wrong.empty()) wrong = each;
  }
  return wrong;
}

}  // namespace

double RowsArray::get(int64_t index) const {
  const std::byte* from = bytes.data() + size_t(index) * dtype_bytes(DType(dtype));
  const auto read = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
    case SK_F64:
      return read(double());
    case SK_BF16:
      return double(bf16_to_f32(read(uint16_t())));
    case SK_F16:
      return double(f16_to_f32(read(uint16_t())));
    default:
      return double(read(float()));
  }
}

void RowsArray::set(int64_t index, double value) {
  std::byte* to = bytes.data() + size_t(index) * dtype_bytes(DType(dtype));
  const auto write = [&](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (dtype) {
    case SK_F64:
      return write(value);
    case SK_BF16:
      return write(f32_to_bf16(float(value)));
    case SK_F16:
      return write(f32_to_f16(float(value)));
    default:
      return write(float(value));
  }
}

RowsCase random_rows(std::mt19937_64& random, int64_t elements_max) {
  RowsCase c;
  const auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
  c.backward = below(2) == 0;
  c.dtype = int32_t(std::array{SK_F32, SK_F64, SK_BF16, SK_F16}[size_t(below(4))]);
  c.weight_dtype = below(2) == 0 ? int32_t(SK_F32) : c.dtype;
  c.dweight_dtype = below(2) == 0 ? int32_t(SK_F32) : c.dtype;
  c.n = 1 + below(below(2) == 0 ? 70 : elements_max / 2);
  c.m = below(std::min<int64_t>(elements_max / c.n, 300) + 1);
  c.ldx = c.n + (below(2) == 0 ? below(20) : 0);
  c.ldy = c.n + (below(2) == 0 ? below(20) : 0);
  c.lddy = c.n + (below(2) == 0 ? below(20) : 0);
  c.weight = below(3) != 0;
  c.second = below(3) != 0;
  c.in_place = !c.backward && below(4) == 0;
  c.eps = std::array{0.0, 1e-6, 1e-5, 0.5}[size_t(below(4))];
  return c;
}

std::string describe(const RowsCase& c) {
  return fmt::format(
      "{} of type {}, weight {} of type {}, second {} of type {}, {} x {}, strides "
      "{} {} {}, in place {}, eps {}",
      c.backward ? "backward" : "forward", c.dtype, c.weight, c.weight_dtype, c.second,
      c.dweight_dtype, c.m, c.n, c.ldx, c.ldy, c.lddy, c.in_place, c.eps);
}

RowsData make_rows(const RowsCase& c, std::mt19937_64& random) {
  RowsData data;
  data.x = make(c.dtype, c.m, c.n, c.ldx, &random);
  if (c.weight) data.weight = make(c.weight_dtype, 1, c.n, 0, &random);
  if (!c.backward) {
    if (!c.in_place) data.y = make(c.dtype, c.m, c.n, c.ldy, nullptr);
    if (c.second) data.rstd = make(sums_of(c.dtype), 1, c.m, 0, nullptr);
    return data;
  }
  data.dy = make(c.dtype, c.m, c.n, c.lddy, &random);
  data.dx = make(c.dtype, c.m, c.n, c.ldy, nullptr);
  data.rstd = make(sums_of(c.dtype), 1, c.m, 0, &random);
  if (c.second) data.dweight = make(c.dweight_dtype, 1, c.n, 0, nullptr);
  return data;
}

std::string wrong_rows(const RowsCase& c, const RowsData& before, const RowsData& after) {
  return c.backward ? wrong_backward(c, before, after) : wrong_forward(c, before, after);
}

}  // namespace sk::testing_support
