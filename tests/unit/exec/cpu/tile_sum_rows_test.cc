// Sums of rows in their order: to the last bit what the record's reference makes of them, however
// many rows are carried on and however wide the strip is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "lib/exec/cpu/tile_table.h"
#include "lib/op/dtype.h"
#include "lib/plan/builder.h"

namespace sk::cpu {
namespace {

struct Case {
  DType dtype, out_dtype;
  uint64_t rows, columns, gap;
};

// What a kernel leaves, between poisoned bytes.
std::vector<std::byte> run(TileFn function, const Case& c, std::vector<std::byte>& in) {
  const uint64_t element = dtype_bytes(c.dtype), out_element = dtype_bytes(c.out_dtype);
  std::vector<std::byte> out((c.columns + 8) * out_element, std::byte(0xa5));
  const int64_t params[kSumRowsParamCount] = {
      int64_t(c.dtype),  int64_t(c.out_dtype), int64_t(c.rows), int64_t(c.columns), 0,
      int64_t(c.columns)};
  const uint64_t row_bytes = c.columns * element;
  const Region regions[] = {
      {0, row_bytes, row_bytes + c.gap * element, uint32_t(c.rows), 0, 1, kRead},
      flat(1, 0, c.columns * out_element, kWrite)};
  std::byte *from = in.data(), *to = out.data() + 4 * out_element;
  TileArgs args{.regions = regions, .pointers = {&from, &to}, .params = params, .region_count = 2};
  function(args);
  return out;
}

std::vector<std::byte> numbers(const Case& c, std::mt19937_64& random) {
  const uint64_t count = c.rows * (c.columns + c.gap);
  std::vector<std::byte> in(count * dtype_bytes(c.dtype));
  std::normal_distribution<double> normal;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = normal(random);
    const auto narrow = float(value);
    if (c.dtype == DType::kF64) {
      std::memcpy(&in[i * 8], &value, 8);
    } else {
      std::memcpy(&in[i * 4], &narrow, 4);
    }
  }
  return in;
}

TEST(SumRows, AreTheReferencesToTheLastBit) {
  std::mt19937_64 random(std::random_device{}());
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF32, DType::kBF16},
                                           {DType::kF32, DType::kF16},
                                           {DType::kF64, DType::kF64},
                                           {DType::kF64, DType::kF32}};
  for (const auto& [dtype, out_dtype] : types) {
    for (const uint64_t rows : {1u, 2u, 31u, 32u, 33u, 64u, 65u, 200u}) {
      for (const uint64_t columns : {1u, 17u, 512u, 1024u, 1025u, 2100u}) {
        const Case c{dtype, out_dtype, rows, columns, random() % 3};
        std::vector<std::byte> in = numbers(c, random);
        const TileFn kernel = cpu_tiles::kSumRows.choose({}, cpu_isa());
        ASSERT_EQ(run(kernel, c, in), run(tiles::kSumRows.reference, c, in))
            << dtype_name(dtype) << " to " << dtype_name(out_dtype) << ", " << rows << " x "
            << columns;
      }
    }
  }
}

TEST(SumRows, OfNoRowsAreZeros) {
  const Case c{DType::kF32, DType::kBF16, 0, 33, 0};
  std::vector<std::byte> in(1);
  EXPECT_EQ(run(cpu_tiles::kSumRows.choose({}, cpu_isa()), c, in),
            run(tiles::kSumRows.reference, c, in));
}

// Above so many rows sums are of sums: beside a fp64 sum of numbers of one sign the error does
// not grow with the rows.
TEST(SumRows, KeepTheirDigitsOverManyRows) {
  std::mt19937_64 random(std::random_device{}());
  for (const uint64_t rows :
       {127u, 128u, 129u, 256u, 257u, 16'384u, 16'385u, 40'000u, 1'100'000u}) {
    const uint64_t columns = rows > 100'000 ? 3 : 40;
    for (const float value : {1.1F, 0.1F, 3.0F}) {
      const Case c{DType::kF32, DType::kF32, rows, columns, 0};
      std::vector<std::byte> in(rows * columns * 4);
      double want = 0;
      for (uint64_t i = 0; i < rows; ++i) {
        want += double(value);
        for (uint64_t j = 0; j < columns; ++j) std::memcpy(&in[(i * columns + j) * 4], &value, 4);
      }
      const std::vector<std::byte> out = run(cpu_tiles::kSumRows.choose({}, cpu_isa()), c, in);
      ASSERT_EQ(out, run(tiles::kSumRows.reference, c, in)) << rows;
      float got = 0;
      std::memcpy(&got, &out[4 * 4], 4);
      EXPECT_LT(std::fabs(got - want), want * 100 * 0x1p-24) << rows << " x " << value;
    }
  }
}

}  // namespace
}  // namespace sk::cpu
