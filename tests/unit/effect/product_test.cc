// Products, packed factors and partial tiles on terms.
#include "tests/unit/effect/bench.h"

namespace sk::effect {
namespace {

using testing::HasSubstr;

struct Product {
  int64_t m = 64, n = 32, k = 16;
  bool transpose_a = false;
  const Schema* schema = &ops::kAllreduceGemm;

  OpDesc op() const {
    GemmCall call;
    call.m = call.ldc = m;
    call.n = call.ldb = call.ldc = n;
    call.k = call.lda = k;
    if (transpose_a) call.lda = m;
    call.transpose_a = transpose_a;
    call.pack_b = true;
    return describe(*schema, call);
  }
};

constexpr uint32_t kA = 1, kC = 2, kB = 3;
constexpr uint64_t kPartialBytes = 64 * 32 * 4;

std::vector<int64_t> gemm_params(const Product& p, int64_t row0, int64_t rows, int64_t col0,
                                 int64_t cols, int64_t epilogue, int64_t self = 0) {
  const int64_t f32 = SK_F32;
  return {f32, f32, p.transpose_a, p.m, p.n, p.k, row0, rows, col0, cols, epilogue, self, 0};
}

struct Strip {
  int64_t col0, cols;
};

// Packed B as tasks leave it side by side.
Stream packed(Bench& bench, const Product& p, std::initializer_list<Strip> strips) {
  Stream out;
  for (const Strip& strip : strips) {
    const uint64_t bytes = uint64_t(strip.cols * p.k) * 4;
    const Result<Stream> made = bench.run(
        *effect_of(TaskOp::kPackB), {SK_F32, 0, p.k, p.n, strip.col0, strip.col0 + strip.cols},
        {Region{0, uint64_t(p.n) * 4, uint64_t(p.n) * 4, uint32_t(p.k), 0, 1, kRead},
         flat(0, 0, bytes, kWrite)},
        {{0, 0, bench.elements(kB, bench.rank(), {0, uint64_t(p.k), 0, uint64_t(p.n)})}});
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) append_all(out, made.value());
  }
  return out;
}

// The same of a B that nobody has packed: of its elements, [n, k] where it is turned.
Result<Stream> raw_gemm(Bench& bench, const Product& p, std::vector<int64_t> params,
                        const Stream& a, const Stream& b, bool turned, Region out) {
  params.push_back(turned);
  const uint64_t rows = uint64_t(params[kGemmRows]), k = uint64_t(p.k), n = uint64_t(p.n);
  const Region from{0, k * 4, k * 4, uint32_t(rows), 0, 1, kRead};
  const uint64_t b_rows = turned ? n : k, line = (turned ? k : n) * 4;
  return bench.run(*effect_of(TaskOp::kGemmRaw), params,
                   {from, Region{0, line, line, uint32_t(b_rows), 0, 1, kRead}, out},
                   {{0, 0, a}, {1, 0, b}});
}

Result<Stream> gemm(Bench& bench, const Product& p, const std::vector<int64_t>& params,
                    const Stream& a, const Stream& b, std::vector<Region> outputs,
                    std::vector<TileInput> partials = {}) {
  const uint64_t rows = uint64_t(params[kGemmRows]), k = uint64_t(p.k);
  const Region from = p.transpose_a
                          ? Region{0, rows * 4, uint64_t(p.m) * 4, uint32_t(k), 0, 1, kRead}
                          : Region{0, k * 4, k * 4, uint32_t(rows), 0, 1, kRead};
  std::vector<Region> regions{from, flat(0, 0, bytes_of(b), kRead)};
  regions.insert(regions.end(), outputs.begin(), outputs.end());
  std::vector<TileInput> inputs{{0, 0, a}, {1, 0, b}};
  inputs.insert(inputs.end(), partials.begin(), partials.end());
  return bench.run(*effect_of(TaskOp::kGemm), params, regions, inputs);
}

Region tile_of_c(const Product& p, uint64_t rows, uint64_t cols) {
  return {0, cols * 4, uint64_t(p.n) * 4, uint32_t(rows), 0, 1, kWrite};
}

TEST(Products, AProductOfOneRankIsItsOutput) {
  const Product p;
  Bench bench(p.op(), 1);
  const Result<Stream> c = gemm(bench, p, gemm_params(p, 16, 16, 8, 24, kGemmStore),
                                bench.elements(kA, 0, {16, 16, 0, 16}),
                                packed(bench, p, {{0, 16}, {16, 16}}), {tile_of_c(p, 16, 24)});
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_TRUE(same(c.value(), bench.elements(kC, 0, {16, 16, 8, 24}), bench.work));
}

TEST(Products, ARawBIsAllOfIt) {
  const Product p;
  Bench bench(p.op(), 1);
  const Stream a = bench.elements(kA, 0, {16, 16, 0, 16});
  const auto product = [&](const effect::Rect& b, bool turned) {
    return raw_gemm(bench, p, gemm_params(p, 16, 16, 8, 24, kGemmStore), a,
                    bench.elements(kB, 0, b), turned, tile_of_c(p, 16, 24));
  };
  const Result<Stream> c = product({0, 16, 0, 32}, false);
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_TRUE(same(c.value(), bench.elements(kC, 0, {16, 16, 8, 24}), bench.work));
  EXPECT_THAT(refusal(product({0, 16, 0, 32}, true)), HasSubstr("b"));
  EXPECT_THAT(refusal(product({0, 15, 0, 32}, false)), HasSubstr("b"));
}

TEST(Products, SwappedStripsAreRefused) {
  const Product p;
  Bench bench(p.op(), 1);
  EXPECT_THAT(refusal(gemm(bench, p, gemm_params(p, 0, 64, 0, 32, kGemmStore),
                           bench.elements(kA, 0, {0, 64, 0, 16}),
                           packed(bench, p, {{16, 16}, {0, 16}}), {tile_of_c(p, 64, 32)})),
              HasSubstr("b is not the packed B of its rank's b, from column 0 on"));
}

// The second strip lies where it does, but the whole has its columns further apart.
TEST(Products, AStripAtAnotherPlaceIsRefused) {
  Product p;
  p.k = 3;  // 12 bytes, or 16 where there is room.
  Bench bench(p.op(), 1);
  Stream b = packed(bench, p, {{0, 16}, {16, 16}});
  const Result<Stream> sound =
      gemm(bench, p, gemm_params(p, 0, 64, 0, 32, kGemmStore), bench.elements(kA, 0, {0, 64, 0, 3}),
           b, {tile_of_c(p, 64, 32)});
  EXPECT_TRUE(sound.ok()) << sound.status().message();
  const auto strip = [&](int64_t col0, uint64_t bytes) {
    const Result<Stream> made =
        bench.run(*effect_of(TaskOp::kPackB), {SK_F32, 0, p.k, p.n, col0, col0 + 16},
                  {Region{0, uint64_t(p.n) * 4, uint64_t(p.n) * 4, uint32_t(p.k), 0, 1, kRead},
                   flat(0, 0, bytes, kWrite)},
                  {{0, 0, bench.elements(kB, 0, {0, 3, 0, 32})}});
    EXPECT_TRUE(made.ok());
    return made.value();
  };
  b = strip(0, 192);
  append_all(b, strip(16, 320));
  EXPECT_THAT(refusal(gemm(bench, p, gemm_params(p, 0, 64, 0, 32, kGemmStore),
                           bench.elements(kA, 0, {0, 64, 0, 3}), b, {tile_of_c(p, 64, 32)})),
              HasSubstr("in a packed B of pitch 16"));
}

TEST(Products, RowsOfAnotherTileAreRefused) {
  const Product p;
  Bench bench(p.op(), 1);
  EXPECT_THAT(refusal(gemm(bench, p, gemm_params(p, 16, 16, 0, 32, kGemmStore),
                           bench.elements(kA, 0, {0, 16, 0, 16}), packed(bench, p, {{0, 32}}),
                           {tile_of_c(p, 16, 32)})),
              HasSubstr("a is not rows 16 to 31 and columns 0 to 15 of its rank's a"));
}

// Square, so that no size gives it away.
TEST(Products, AWrongTransposedFlagIsRefused) {
  for (const bool transposed : {false, true}) {
    Product p{.m = 16, .n = 32, .k = 16, .transpose_a = transposed};
    Bench bench(p.op(), 1);
    Stream a;
    if (transposed) {
      ASSERT_TRUE(bench.meaning.hold_turned(kA, 0, {0, 16, 0, 16}, &a));
    } else {
      a = bench.elements(kA, 0, {0, 16, 0, 16});
    }
    std::vector<int64_t> params = gemm_params(p, 0, 16, 0, 32, kGemmStore);
    const Stream b = packed(bench, p, {{0, 32}});
    const Result<Stream> sound = gemm(bench, p, params, a, b, {tile_of_c(p, 16, 32)});
    EXPECT_TRUE(sound.ok()) << sound.status().message();
    params[kGemmTransposeA] = !transposed;
    EXPECT_THAT(refusal(gemm(bench, p, params, a, b, {tile_of_c(p, 16, 32)})),
                HasSubstr("a is not rows 0 to 15"));
  }
}

TEST(Products, ParametersThatMeanSizesMustBeTheOperations) {
  const Product p;
  Bench bench(p.op(), 1);
  const Stream b = packed(bench, p, {{0, 32}});
  for (const int parameter : {kGemmM, kGemmN, kGemmK}) {
    std::vector<int64_t> params = gemm_params(p, 0, 16, 0, 32, kGemmStore);
    params[size_t(parameter)] += 64;
    EXPECT_THAT(refusal(gemm(bench, p, params, bench.elements(kA, 0, {0, 16, 0, 16}), b,
                             {tile_of_c(p, 16, 32)})),
                HasSubstr("the operation over"));
  }
}

Result<Stream> partial(Bench& bench, const Product& p, int64_t row0) {
  return gemm(bench, p, gemm_params(p, row0, 16, 0, 32, kGemmPartial),
              bench.elements(kA, 0, {uint64_t(row0), 16, 0, 16}), packed(bench, p, {{0, 32}}),
              {flat(0, 0, kPartialBytes, kWrite)});
}

// Rank 0 makes a partial tile, and rank 1's lies beside it.
TEST(Products, APartialOfAnotherTileIsRefused) {
  const Product p;
  Bench bench(p.op(), 2);
  const auto join = [&](int64_t row0, int64_t self) {
    Result<Stream> theirs = partial(bench, p, row0);
    EXPECT_TRUE(theirs.ok()) << theirs.status().message();
    Stream other;  // As rank 1 makes it.
    Piece piece = theirs.value()[0];
    piece.term.first = 1;
    append(other, piece);
    Region entries = flat(0, 0, kPartialBytes, kRead);
    entries.buffer_count = 2;
    return gemm(bench, p, gemm_params(p, 16, 16, 0, 32, kGemmReduce, self),
                bench.elements(kA, 0, {16, 16, 0, 16}), packed(bench, p, {{0, 32}}),
                {entries, tile_of_c(p, 16, 32)}, {{2, uint32_t(1 - self), other}});
  };
  const Result<Stream> sound = join(16, 0);
  ASSERT_TRUE(sound.ok()) << sound.status().message();
  EXPECT_TRUE(same(sound.value(), bench.elements(kC, 0, {16, 16, 0, 32}), bench.work));
  EXPECT_THAT(refusal(join(0, 0)), HasSubstr("entry 1 of its partials is not this tile's"));
  EXPECT_THAT(refusal(join(16, 1)), HasSubstr("begins with rank 1's contribution"));
}

// ---- rows that other ranks gave ---------------------------------------------------------------

constexpr uint32_t kGathered = 4;

// 3 ranks' A of 16 x 16, one below the other.
Product gathering(bool transpose_a) {
  return {.m = 16, .n = 32, .k = 16, .transpose_a = transpose_a, .schema = &ops::kAllgatherGemm};
}

Stream rows_of(const Bench& bench, const Product& p, uint32_t rank, const Rect& rect) {
  Stream out;
  EXPECT_TRUE(p.transpose_a ? bench.meaning.hold_turned(kA, rank, rect, &out)
                            : bench.meaning.hold(kA, rank, rect, &out));
  return out;
}

// Rank 1 multiplies rows 4 to 11 of what rank `source` gave, as those of rank 2.
Result<Stream> multiply_rows(Bench& bench, const Product& p, uint32_t source, uint64_t row0 = 4) {
  Product whole = p;
  whole.m = 3 * p.m;
  return gemm(bench, whole, gemm_params(whole, 2 * 16 + 4, 8, 0, 32, kGemmStore),
              rows_of(bench, p, source, {row0, 8, 0, 16}), packed(bench, p, {{0, 32}}),
              {tile_of_c(p, 8, 32)});
}

TEST(GatheredProducts, AreOfTheRowsThatTheirRankGave) {
  for (const bool turned : {false, true}) {
    const Product p = gathering(turned);
    Bench bench(p.op(), 3, /*rank=*/1);
    const Result<Stream> c = multiply_rows(bench, p, /*source=*/2);
    ASSERT_TRUE(c.ok()) << c.status().message();
    EXPECT_TRUE(same(c.value(), bench.elements(kC, 1, {2 * 16 + 4, 8, 0, 32}), bench.work));
    EXPECT_THAT(refusal(multiply_rows(bench, p, /*source=*/0)),
                HasSubstr("a is not rows 36 to 43 and columns 0 to 15 of its rank's gathered"));
    EXPECT_THAT(refusal(multiply_rows(bench, p, /*source=*/2, /*row0=*/5)),
                HasSubstr("a is not rows 36 to 43"));
  }
}

TEST(GatheredProducts, RowsOfTwoRanksAreTheEndOfOneAndTheBeginOfTheOther) {
  const Product p = gathering(/*transpose_a=*/false);
  const Bench bench(p.op(), 3);
  Stream wanted = rows_of(bench, p, 0, {14, 2, 0, 16});
  append_all(wanted, rows_of(bench, p, 1, {0, 3, 0, 16}));
  Work work;
  EXPECT_TRUE(same(bench.elements(kGathered, 0, {14, 5, 0, 16}), wanted, work));
}

// Column after column: of each those of the one rank, then those of the other.
TEST(GatheredProducts, SoAreColumnsOfTwoRanks) {
  const Product p = gathering(/*transpose_a=*/true);
  const Bench bench(p.op(), 3);
  Stream found, wanted;
  ASSERT_TRUE(bench.meaning.hold_turned(kGathered, 0, {14, 5, 6, 2}, &found));
  for (const uint64_t column : {6, 7}) {
    append_all(wanted, rows_of(bench, p, 0, {14, 2, column, 1}));
    append_all(wanted, rows_of(bench, p, 1, {0, 3, column, 1}));
  }
  Work work;
  EXPECT_TRUE(same(found, wanted, work));
  Stream whole;
  ASSERT_TRUE(bench.meaning.hold_turned(kGathered, 0, {16, 16, 0, 16}, &whole));
  EXPECT_EQ(whole.size(), 1u);  // What is one rank's is one piece.
}

TEST(GatheredProducts, MovedArraysAreTheirOrigin) {
  const Bench bench(gathering(false).op(), 3);
  EXPECT_EQ(bench.meaning.origin(kGathered), kA);
  EXPECT_EQ(bench.meaning.origin(kC), kC);
}

}  // namespace
}  // namespace sk::effect
