#include "bench/gpu/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "lib/op/dtype.h"

namespace sk::cuda {
namespace {

constexpr uint16_t kPoison = 0x7fc1;  // Not a number.
constexpr int kPlaces = 300;          // That are compared of a large product.

float sum_at(const Shape& shape, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
             int64_t row, int64_t column) {
  const uint16_t* left = a.data() + row * shape.k;
  const uint16_t* right = b.data() + column * int64_t(shape.b_pitch() / 2);
  float sum = 0;
  for (int64_t j = 0; j < shape.k; ++j) sum += bf16_to_f32(left[j]) * bf16_to_f32(right[j]);
  return sum;
}

}  // namespace

std::string Shape::name() const { return fmt::format("{}x{}x{}", m, n, k); }

Matrix::Matrix(const Machine& machine, uint64_t bytes)
    : machine_(machine),
      bytes_((bytes + 1) / 2 * 2),
      memory_(must(DeviceMemory::allocate(machine.device().owner(), bytes_, "a matrix"))) {}

void Matrix::fill(Fill fill, uint64_t seed) {
  std::vector<uint16_t> values(bytes_ / 2);
  uint64_t state = seed * 2 + 1;
  for (uint16_t& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = uint32_t(state >> 40);
    value = f32_to_bf16(fill == Fill::kRandom ? float(bits) / float(1 << 23) - 1
                                              : float(int(bits % 5) - 2));
  }
  must(machine_.device().upload(memory_.address(), values.data(), bytes_));
}

void Matrix::poison() {
  const std::vector<uint16_t> values(bytes_ / 2, kPoison);
  must(machine_.device().upload(memory_.address(), values.data(), bytes_));
}

std::vector<uint16_t> Matrix::read() const {
  std::vector<uint16_t> values(bytes_ / 2);
  must(machine_.device().download(values.data(), memory_.address(), bytes_));
  return values;
}

void Matrix::write(const std::vector<uint16_t>& values) {
  must(machine_.device().upload(memory_.address(), values.data(), bytes_));
}

std::vector<uint16_t> turned_b(const Shape& shape, const std::vector<uint16_t>& b) {
  constexpr int64_t kSide = 32;  // Of blocks: lines of both stay in the cache.
  const auto from = int64_t(shape.b_pitch() / 2), to = int64_t(shape.kn_pitch() / 2);
  std::vector<uint16_t> out(size_t(shape.kn_bytes() / 2));
  for (int64_t row0 = 0; row0 < shape.n; row0 += kSide)
    for (int64_t col0 = 0; col0 < shape.k; col0 += kSide)
      for (int64_t row = row0; row < std::min(row0 + kSide, shape.n); ++row)
        for (int64_t col = col0; col < std::min(col0 + kSide, shape.k); ++col)
          out[size_t(col * to + row)] = b[size_t(row * from + col)];
  return out;
}

std::string compare_product(const Shape& shape, const std::vector<std::vector<uint16_t>>& a,
                            const std::vector<std::vector<uint16_t>>& b,
                            const std::vector<uint16_t>& c) {
  if (std::find(c.begin(), c.end(), kPoison) != c.end()) return "an element was not written";
  std::mt19937_64 random(c.size());
  for (int i = 0; i < kPlaces; ++i) {
    // The corners first.
    const int64_t row = i < 4 ? (i / 2) * (shape.m - 1) : int64_t(random() % uint64_t(shape.m));
    const int64_t column = i < 4 ? (i % 2) * (shape.n - 1) : int64_t(random() % uint64_t(shape.n));
    float sum = 0;
    for (size_t rank = 0; rank < a.size(); ++rank)
      sum += sum_at(shape, a[rank], b[rank], row, column);
    const float seen = bf16_to_f32(c[size_t(row * shape.n + column)]);
    if (seen != bf16_to_f32(f32_to_bf16(sum))) {
      return fmt::format("row {}, column {} is {}, not {}", row, column, seen, sum);
    }
  }
  return "";
}

ProductVerdict judge_product(const Shape& shape, const std::vector<uint16_t>& a,
                             const std::vector<uint16_t>& b, const std::vector<uint16_t>& c) {
  constexpr int64_t kSmall = 1 << 28;  // Multiplications: a second of the CPU.
  constexpr int64_t kRows = 64, kCols = 64;
  if (shape.m * shape.n * shape.k > kSmall)
    return {compare_product(shape, {a}, {b}, c), uint64_t(kPlaces)};
  std::map<std::pair<int64_t, int64_t>, uint64_t> wrong_in;  // Blocks of kRows x kCols.
  std::string first;
  uint64_t wrong = 0, unwritten = 0;
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; ++column) {
      const uint16_t seen = c[size_t(row * shape.n + column)];
      const float wanted = sum_at(shape, a, b, row, column);
      if (seen == f32_to_bf16(wanted)) continue;
      if (first.empty()) {
        first = fmt::format("row {}, column {} is {}, not {}", row, column, bf16_to_f32(seen),
                            bf16_to_f32(f32_to_bf16(wanted)));
      }
      ++wrong;
      unwritten += seen == kPoison ? 1 : 0;
      ++wrong_in[{row / kRows, column / kCols}];
    }
  }
  const auto compared = uint64_t(shape.m * shape.n);
  if (wrong == 0) return {"", compared};
  std::string where;
  for (const auto& [block, count] : wrong_in)
    where += fmt::format(" ({}, {}): {}", block.first, block.second, count);
  return {fmt::format("{} of {} elements are wrong, {} of these were not written; first: {}; by "
                      "blocks of {} x {}:{}",
                      wrong, compared, unwritten, first, kRows, kCols, where.substr(0, 2000)),
          compared};
}

}  // namespace sk::cuda
