// Tiles on terms: what each may leave, and the bugs that a planner or a tile could have. Operations
// and tiles of the library beside some that only this test has: nothing here goes by names.
#include "lib/op/well_formed.h"
#include "lib/plan/task_info.h"
#include "tests/unit/effect/bench.h"

namespace sk::effect {
namespace {

using testing::HasSubstr;

TEST(Run, AReductionIsTheOutputWhereAllHaveJoined) {
  Bench bench(vectors(ops::kAllreduce, DType::kBF16), 3);
  std::vector<Stream> in;
  for (uint32_t rank = 0; rank < 3; ++rank) in.push_back(bench.elements(1, rank, kEight));
  Result<Stream> out = bench.reduce(in, DType::kBF16, DType::kBF16);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(same(out.value(), bench.elements(2, 1, kEight), bench.work));
}

TEST(Run, AnotherReductionIsRefused) {
  Bench bench(vectors(ops::kAllreduce, DType::kF32), 2);
  const std::vector<Stream> in{bench.elements(1, 0, kEight), bench.elements(1, 1, kEight)};
  EXPECT_THAT(refusal(bench.reduce(in, DType::kF32, DType::kF32, RedOp::kMax)),
              HasSubstr("nothing is said of a max of in of rank 0"));
}

TEST(Run, RoundingBeforeAllHaveJoinedIsRefused) {
  Bench bench(vectors(ops::kAllreduce, DType::kBF16), 3);
  const std::vector<Stream> in{bench.elements(1, 0, kEight), bench.elements(1, 1, kEight)};
  EXPECT_THAT(refusal(bench.reduce(in, DType::kBF16, DType::kBF16)),
              HasSubstr("the sum of in of ranks 0 to 1 is not to be kept as bf16"));
}

TEST(Run, RoundingTwiceIsRefused) {
  Bench bench(vectors(ops::kAllreduce, DType::kBF16), 2);
  const std::vector<Stream> in{bench.elements(1, 0, kEight), bench.elements(1, 1, kEight)};
  const Result<Stream> once = bench.reduce(in, DType::kBF16, DType::kBF16);
  ASSERT_TRUE(once.ok());
  EXPECT_THAT(refusal(bench.reduce({once.value(), in[1]}, DType::kBF16, DType::kBF16)),
              HasSubstr("input 0 has been rounded already"));
  Term term = once.value()[0].term;
  EXPECT_THAT(bench.meaning.store(&term, DType::kF16).message(),
              HasSubstr("has been rounded already"));
}

TEST(Run, AnAverageTwiceIsRefused) {
  Bench bench(vectors(ops::kAllreduce, DType::kF32, RedOp::kAvg), 2);
  const std::vector<Stream> in{bench.elements(1, 0, kEight), bench.elements(1, 1, kEight)};
  const Result<Stream> once = bench.reduce(in, DType::kF32, DType::kF32, RedOp::kAvg);
  ASSERT_TRUE(once.ok()) << once.status().message();
  EXPECT_THAT(
      refusal(bench.reduce({once.value(), once.value()}, DType::kF32, DType::kF32, RedOp::kAvg)),
      HasSubstr("input 0 is an avg already"));
}

TEST(Run, ElementsOfTwoPlacesAreRefused) {
  Bench bench(vectors(ops::kAllreduce, DType::kF32), 2);
  const std::vector<Stream> in{bench.elements(1, 0, {0, 1, 0, 4}),
                               bench.elements(1, 1, {0, 1, 4, 4})};
  EXPECT_THAT(refusal(bench.reduce(in, DType::kF32, DType::kF32)),
              HasSubstr("joins element 0 of row 0 with element 4 of row 0"));
}

// Outputs know their inputs across ranks, however they are cut.
TEST(Run, PlacesGiveTheirIteratorsBack) {
  const Bench gather(vectors(ops::kAllgather, DType::kF32), 3);
  Stream part = gather.elements(2, 0, {0, 1, 6, 12});  // The end of rank 0's, half of rank 1's.
  ASSERT_EQ(part.size(), 3u);
  EXPECT_EQ(part[0].term.first, 0u);
  EXPECT_EQ(part[0].column, 6 * sizeof(float));
  EXPECT_EQ(part[1].term.first, 1u);
  EXPECT_EQ(part[1].bytes, 8 * sizeof(float));
  EXPECT_EQ(part[2].term.first, 2u);
  const Bench scatter(vectors(ops::kReduceScatter, DType::kF32), 3);
  part = scatter.elements(2, 2, {0, 1, 1, 3});
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].column, 17 * sizeof(float));
  Stream none;
  EXPECT_FALSE(Bench(describe(ops::kSendRecv, {.root = 0, .peer = 1, .count = 8}), 2)
                   .meaning.hold(2, 0, kEight, &none));
}

constexpr Dimension kDimensions[] = {{"m"}, {"k"}};
constexpr OperandSchema kNormOperands[] = {
    {.name = "x", .role = Role::kIn, .types = "float", .shape = "m, k"},
    {.name = "w", .role = Role::kIn, .types = "x", .shape = "k"},
    {.name = "y", .role = Role::kOut, .types = "x", .shape = "m, k"}};
constexpr Attribute kEps[] = {{"eps", AttributeKind::kRank}};
constexpr Steps kNormMeaning = steps_of("y@r[i, j] = norm[j](x@r[i, j], w@r[j], eps = eps)");
constexpr Schema kNorm = {.id = OpKind(200),
                          .name = "norm",
                          .brief = "",
                          .dimensions = kDimensions,
                          .operands = kNormOperands,
                          .attributes = kEps,
                          .meaning = &kNormMeaning};
static_assert(flaw_in(kNorm) == kNoFlaw);

constexpr const char* kNormNames[] = {"row0", "rows", "m", "k", "col0", "cols", "eps"};
constexpr RegionRecord kNormRegions[] = {
    {.name = "rows_of_x"}, {.name = "weight"}, {.name = "out", .written = true}};
constexpr RangeRecord kNormRanges[] = {{"row", "row0", "rows", "m"}, {"col", "col0", "cols", "k"}};
constexpr FormRecord kNormForms[] = {
    {"out[row, col] = norm[col](rows_of_x[row, col], weight[col], eps = eps)", kNormRegions,
     kNormRanges}};
constexpr TileRecord kNormRecord = {.parameters = kNormNames, .forms = kNormForms};

class OwnTile : public testing::Test {
 protected:
  static OpDesc op() {
    OpDesc op(kNorm);
    op.set(kNorm.field("m"), 10);
    op.set(kNorm.field("k"), 6);
    op.set(kNorm.field("eps"), 5);
    return op;
  }
  // Four rows from the third on.
  Result<Stream> run(const std::vector<int64_t>& params, const Stream& x, const Stream& w) {
    return bench_.run(tile_, params,
                      {Region{0, 24, 24, 4, 0, 1, kRead}, flat(0, 0, 24, kRead),
                       Region{0, 24, 24, 4, 0, 1, kWrite}},
                      {{0, 0, x}, {1, 0, w}});
  }
  Stream x(uint64_t row0) const { return bench_.elements(1, 0, {row0, 4, 0, 6}); }
  Stream w() const { return bench_.elements(2, 0, {0, 1, 0, 6}); }

  const Tile tile_{kNormRecord};
  Bench bench_{op(), 2};
};

TEST_F(OwnTile, LeavesWhatItsOperationMeans) {
  ASSERT_EQ(tile_.flaw(), "");
  const Result<Stream> y = run({2, 4, 10, 6, 0, 6, 5}, x(2), w());
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(same(y.value(), bench_.elements(3, 0, {2, 4, 0, 6}), bench_.work));
}

TEST_F(OwnTile, AnotherEpsIsRefused) {
  EXPECT_THAT(refusal(run({2, 4, 10, 6, 0, 6, 6}, x(2), w())),
              HasSubstr("the eps of norm is 6, it must be 5"));
}

TEST_F(OwnTile, OtherRowsAndOtherWeightsAreRefused) {
  EXPECT_THAT(refusal(run({2, 4, 10, 6, 0, 6, 5}, x(3), w())),
              HasSubstr("rows_of_x is not rows 2 to 5"));
  EXPECT_THAT(refusal(run({2, 4, 10, 6, 0, 6, 5}, x(2), bench_.elements(1, 0, {0, 1, 0, 6}))),
              HasSubstr("weight is not rows 0 to 0"));
  EXPECT_THAT(refusal(run({2, 4, 12, 6, 0, 6, 5}, x(2), w())),
              HasSubstr("it goes over 12 row, the operation over 10"));
}

TEST_F(OwnTile, ARowFunctionIsNotCut) {
  EXPECT_THAT(refusal(run({2, 4, 10, 6, 0, 3, 5}, x(2), w())),
              HasSubstr("it has 3 of 6 col, which are not to be cut"));
}

// Element by element, at whatever place.
constexpr OperandSchema kScaleOperands[] = {
    {.name = "x", .role = Role::kIn, .types = "float", .shape = "m"},
    {.name = "y", .role = Role::kOut, .types = "x", .shape = "m"}};
constexpr Steps kScaleMeaning = steps_of("y@r[i] = scale(x@r[i], by = eps * 2)");
constexpr Schema kScale = {.id = OpKind(201),
                           .name = "scale",
                           .brief = "",
                           .dimensions = kDimensions,
                           .operands = kScaleOperands,
                           .attributes = kEps,
                           .meaning = &kScaleMeaning};
static_assert(flaw_in(kScale) == kNoFlaw);
constexpr const char* kScaleNames[] = {"dtype", "factor"};
constexpr RegionRecord kScaleRegions[] = {{.name = "in", .type = "dtype"},
                                          {.name = "out", .type = "dtype", .written = true}};
constexpr FormRecord kScaleForms[] = {{"out[y, x] = scale(in[y, x], by = factor)", kScaleRegions}};
constexpr TileRecord kScaleRecord = {.parameters = kScaleNames, .forms = kScaleForms};

TEST(ElementTile, ItsParameterIsBoundToAnAttribute) {
  OpDesc op(kScale);
  op.set(kScale.field("m"), 8);
  op.set(kScale.field("eps"), 5);
  Bench bench(op, 2);
  const Tile tile(kScaleRecord);
  ASSERT_EQ(tile.flaw(), "");
  const auto scale = [&](int64_t by, uint32_t rank = 0) {
    return bench.run(tile, {SK_F32, by}, {flat(0, 0, 16, kRead), flat(0, 0, 16, kWrite)},
                     {{0, 0, bench.elements(1, rank, {0, 1, 2, 4})}});
  };
  const Result<Stream> y = scale(10);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(same(y.value(), bench.elements(2, 0, {0, 1, 2, 4}), bench.work));
  EXPECT_THAT(refusal(scale(5)), HasSubstr("the by of scale is 5, it must be 10"));
  EXPECT_THAT(refusal(scale(10, 1)), HasSubstr("scale of x of rank 1 is that rank's to make"));
}

// Sums in blocks of 2 ranks.
constexpr Steps kBlockMeaning = steps_of("y@q[i] = sum(r blocks 2) x@r[i]");
constexpr Schema kBlocksOf2 = {.id = OpKind(202),
                               .name = "blocks",
                               .brief = "",
                               .dimensions = kDimensions,
                               .operands = kScaleOperands,
                               .attributes = kEps,
                               .meaning = &kBlockMeaning};
static_assert(flaw_in(kBlocksOf2) == kNoFlaw);

TEST(BlocksOfRanks, JoinInBlocksAndNotAsOne) {
  OpDesc op(kBlocksOf2);
  op.set(kBlocksOf2.field("m"), 8);
  Bench bench(op, 4);
  std::vector<Stream> x;
  for (uint32_t rank = 0; rank < 4; ++rank) x.push_back(bench.elements(1, rank, kEight));
  EXPECT_THAT(refusal(bench.reduce(x, DType::kF32, DType::kF32)),
              HasSubstr("input 2 is rank 2's contribution, of a block that is not whole"));
  const Result<Stream> left = bench.reduce({x[0], x[1]}, DType::kF32, DType::kF32);
  const Result<Stream> right = bench.reduce({x[2], x[3]}, DType::kF32, DType::kF32);
  ASSERT_TRUE(left.ok() && right.ok());
  const Result<Stream> y = bench.reduce({left.value(), right.value()}, DType::kF32, DType::kF32);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(same(y.value(), bench.elements(2, 3, kEight), bench.work));
}

// The library's own records: every name in them is found, and the entry that a task makes itself is
// the one that its signature has nobody touch.
TEST(Records, AreWellFormed) {
  for (uint32_t op = 0; op < kTaskOpCount; ++op) {
    const Signature* signature = signature_of(TaskOp(op));
    const Tile* tile = effect_of(TaskOp(op));
    ASSERT_EQ(tile != nullptr, moves_bytes(TaskOp(op))) << signature->name;
    if (tile == nullptr) continue;
    EXPECT_EQ(tile->flaw(), "") << signature->name;
    std::vector<int64_t> params(signature->parameters.size());
    for (size_t number = 0; number < signature->forms.size(); ++number) {
      if (signature->form_parameter != kNoParameter)
        params[signature->form_parameter] = int64_t(number);
      const Tile::Form* form = tile->form(params);
      ASSERT_NE(form, nullptr) << signature->name;
      for (size_t i = 0; i < signature->forms[number].regions.size(); ++i) {
        const uint8_t own = signature->forms[number].regions[i].but_parameter;
        EXPECT_EQ(own != kNoParameter, form->own_region == int(i)) << signature->name;
        if (own == kNoParameter) continue;
        EXPECT_EQ(form->own_parameter, own) << signature->name;
      }
    }
  }
}

}  // namespace
}  // namespace sk::effect
