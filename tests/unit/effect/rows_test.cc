// Tiles of several outputs, and sums in blocks of rows, on terms: the gradient of rmsnorm, and what
// it must not be taken for.
#include "lib/op/ops/rmsnorm.h"
#include "lib/op/values.h"
#include "tests/unit/effect/bench.h"

namespace sk::effect {
namespace {

using testing::HasSubstr;

constexpr uint64_t kM = 40, kN = 6, kBlock = ops::rows::kBlockRows;
static_assert(kM > 2 * kBlock && kM % kBlock != 0);

constexpr uint32_t number(const Schema& schema, std::string_view name) {
  return uint32_t(schema.operand(name) - schema.operands.data()) + 1;  // As terms count.
}
OpDesc shaped(const Schema& schema) {
  OpDesc op(schema);
  op.set(schema.field("m"), kM);
  op.set(schema.field("n"), kN);
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (const Field stride = schema.stride_field(i)) op.set(stride, kN);
  }
  return op;
}

Region rows_of(uint64_t count, RegionAccess access) {
  return {0, kN * 4, kN * 4, uint32_t(count), 0, 1, access};
}

class Gradients : public testing::Test {
 protected:
  static constexpr uint32_t kX = number(ops::kRmsnormBackward, "x"),
                            kDy = number(ops::kRmsnormBackward, "dy"),
                            kRstd = number(ops::kRmsnormBackward, "rstd"),
                            kDx = number(ops::kRmsnormBackward, "dx"),
                            kWeight = number(ops::kRmsnormBackward, "weight"),
                            kDweight = number(ops::kRmsnormBackward, "dweight"),
                            kSums = uint32_t(ops::kRmsnormBackward.operands.size()) + 1;
  struct Task {
    uint64_t row0 = kBlock, rows = kBlock, block = kBlock;
    uint32_t first = kDy, second = kX, weight = kWeight;
    uint64_t x_row0 = row0, rstd_row0 = row0, weight_row = 0;
  };

  Stream rows(uint32_t array, uint64_t row0, uint64_t count) const {
    return bench_.elements(array, 0, {row0, count, 0, kN});
  }
  Stream vector(uint32_t array, uint64_t first, uint64_t count) const {
    return bench_.elements(array, 0, {0, 1, first, count});
  }
  Result<Outputs> run(const Task& t) {
    const uint64_t blocks = (t.rows + kBlock - 1) / kBlock;
    return bench_.run_all(
        *effect_of(TaskOp::kRmsnormBackward),
        {SK_F32, SK_F32, kGivenWeight | kGivenSecond, kM, kN, int64_t(t.row0), int64_t(t.rows),
         int64_t(t.block), kStoreDefault},
        {rows_of(t.rows, kRead), rows_of(t.rows, kRead), flat(0, 0, t.rows * 4, kRead),
         flat(0, 0, kN * 4, kRead), rows_of(t.rows, kWrite), rows_of(blocks, kWrite)},
        {{0, 0, rows(t.first, t.row0, t.rows)},
         {1, 0, rows(t.second, t.x_row0, t.rows)},
         {2, 0, vector(kRstd, t.rstd_row0, t.rows)},
         {3, 0, vector(t.weight, 0, kN)}});
  }
  std::string refusal_of(const Task& t) {
    const Result<Outputs> result = run(t);
    EXPECT_FALSE(result.ok());
    return result.status().message();
  }
  Result<Stream> join(const Stream& sums, uint64_t blocks, uint64_t col0 = 0, uint64_t cols = kN) {
    return bench_.run(
        *effect_of(TaskOp::kSumRows),
        {SK_F32, SK_F32, int64_t(blocks), kN, int64_t(col0), int64_t(cols)},
        {{0, cols * 4, kN * 4, uint32_t(blocks), 0, 1, kRead}, flat(0, 0, cols * 4, kWrite)},
        {{0, 0, sums}});
  }

  Bench bench_{shaped(ops::kRmsnormBackward), 1};
};

TEST_F(Gradients, EachOutputIsItsOwnStep) {
  const Result<Outputs> left = run({});
  ASSERT_TRUE(left.ok()) << left.status().message();
  EXPECT_TRUE(same(left.value().of(4), rows(kDx, kBlock, kBlock), bench_.work));
  EXPECT_TRUE(same(left.value().of(5), rows(kSums, 1, 1), bench_.work));
  EXPECT_FALSE(same(left.value().of(5), rows(kSums, 0, 1), bench_.work));
}

TEST_F(Gradients, TheLastBlockIsWhatIsLeft) {
  const Result<Outputs> left = run({.row0 = kBlock, .rows = kM - kBlock});
  ASSERT_TRUE(left.ok()) << left.status().message();
  EXPECT_TRUE(same(left.value().of(5), rows(kSums, 1, 2), bench_.work));
}

TEST_F(Gradients, BlocksAreNotCut) {
  for (const auto& [row0, count] : {std::pair<uint64_t, uint64_t>{kBlock, kBlock - 1},
                                    {kBlock + 1, kBlock - 1},
                                    {0, kM - 1},
                                    {1, kM - 1},
                                    {kBlock / 2, kBlock}}) {
    EXPECT_THAT(refusal_of({.row0 = row0, .rows = count}),
                HasSubstr("blocks of 16 are not to be cut"))
        << row0;
  }
}

TEST_F(Gradients, OtherBlocksAreRefused) {
  for (const uint64_t block : {kBlock / 2, kBlock * 2, uint64_t(1), kM}) {
    EXPECT_THAT(refusal_of({.row0 = 0, .rows = kM, .block = block}),
                HasSubstr("the operation of 16"));
  }
}

TEST_F(Gradients, OtherInputsAreRefused) {
  EXPECT_THAT(refusal_of({.first = kX, .second = kDy}), HasSubstr("is not rows"));
  EXPECT_THAT(refusal_of({.x_row0 = kBlock + 1}), HasSubstr("x is not rows 16 to 31"));
  EXPECT_THAT(refusal_of({.rstd_row0 = 0}), HasSubstr("rstd is not rows"));
  EXPECT_THAT(refusal_of({.weight = kRstd}), HasSubstr("weight is not rows"));
}

TEST_F(Gradients, AllBlocksJoinedAreTheWeights) {
  const Result<Stream> all = join(rows(kSums, 0, 3), 3);
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_TRUE(same(all.value(), vector(kDweight, 0, kN), bench_.work));
  const Result<Stream> some = join(bench_.elements(kSums, 0, {0, 3, 2, 3}), 3, 2, 3);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_TRUE(same(some.value(), vector(kDweight, 2, 3), bench_.work));
}

TEST_F(Gradients, FewerBlocksOthersAndOtherColumnsAreRefused) {
  EXPECT_THAT(refusal(join(rows(kSums, 0, 2), 2)), HasSubstr("over 2 i, the operation over 3"));
  EXPECT_THAT(refusal(join(rows(kX, 0, 3), 3)), HasSubstr("in is not rows 0 to 2"));
  Stream twice = rows(kSums, 0, 2);
  append_all(twice, rows(kSums, 1, 1));
  EXPECT_THAT(refusal(join(twice, 3)), HasSubstr("in is not rows 0 to 2"));
  Stream turned = rows(kSums, 1, 1);
  append_all(turned, rows(kSums, 0, 1));
  append_all(turned, rows(kSums, 2, 1));
  EXPECT_THAT(refusal(join(turned, 3)), HasSubstr("in is not rows 0 to 2"));
  EXPECT_THAT(refusal(join(bench_.elements(kSums, 0, {0, 3, 1, 3}), 3, 2, 3)),
              HasSubstr("columns 2 to 4"));
}

// Without what may be absent there is another function of one input less, and no other.
TEST(RowsWithoutWeights, AreNotThoseWithThem) {
  const Schema& schema = ops::kRmsnorm;
  OpDesc op = shaped(schema);
  op.set(schema.field("eps"), bits_of(0.5));
  const uint32_t x = number(schema, "x"), weight = number(schema, "weight");
  const auto run = [&](Bench& bench, int64_t given) {
    std::vector<Region> regions{rows_of(kM, kRead)};
    std::vector<TileInput> inputs{{0, 0, bench.elements(x, 0, {0, kM, 0, kN})}};
    if ((given & kGivenWeight) != 0) {
      regions.push_back(flat(0, 0, kN * 4, kRead));
      inputs.push_back({1, 0, bench.elements(weight, 0, {0, 1, 0, kN})});
    }
    regions.push_back(rows_of(kM, kWrite));
    return bench.run(*effect_of(TaskOp::kRmsnorm),
                     {SK_F32, SK_F32, given, kM, kN, 0, kM, bits_of(0.5), kStoreDefault}, regions,
                     inputs);
  };
  Bench weighted(op, 1);
  EXPECT_TRUE(run(weighted, kGivenWeight).ok());
  EXPECT_THAT(refusal(run(weighted, 0)), HasSubstr("nothing is said of rmsnorm"));
  op.set(OpDesc::absent_field(weight - 1), 1);
  Bench plain(op, 1);
  EXPECT_TRUE(run(plain, 0).ok());
  EXPECT_THAT(refusal(run(plain, kGivenWeight)), HasSubstr("nothing is said of rmsnorm"));
}

constexpr const char* kNames[] = {"n"};
constexpr RegionRecord kTwoOutputs[] = {
    {.name = "x"}, {.name = "y", .written = true}, {.name = "z", .written = true}};
constexpr RangeRecord kRanges[] = {{"i", "0", "n", "n"}};

std::string_view flaw_of(const char* steps) {
  const FormRecord forms[] = {{steps, kTwoOutputs, kRanges}};
  const TileRecord record{.parameters = kNames, .forms = forms};
  return Tile(record).flaw();
}

// A form that leaves an output to chance, or makes one twice, is none.
TEST(SeveralOutputs, AreMadeOnceEach) {
  EXPECT_EQ(flaw_of("y[i] = f(x[i]); z[i] = g(x[i])"), "");
  for (const char* steps : {"y[i] = f(x[i])", "y[i] = f(x[i]); y[i] = g(x[i])",
                            "y[i] = f(x[i]); z[i] = g(x[i]); z[i] = h(x[i])"}) {
    EXPECT_EQ(flaw_of(steps), "an output is made by no step or by several") << steps;
  }
  EXPECT_EQ(flaw_of("y[i] = f(x[i]); z[i // 2] = g(x[i])"),
            "a step makes blocks of what it does not sum");
  EXPECT_EQ(flaw_of("y[i] = f(x[i]); z[i] = g(x[j])"), "an iterator has no range, or a range none");
  EXPECT_EQ(flaw_of("y[i] = f(x[i]; z[i] = g(x[i])"), "its steps cannot be read");
}

// Whose forms go element by element, by types that the parameter `t` names.
std::string_view elements_flaw_of(const char* steps, const char* first_type = "t",
                                  const char* form_by = "") {
  static constexpr const char* kTypes[] = {"t"};
  const RegionRecord regions[] = {{.name = "x", .type = first_type},
                                  {.name = "w", .type = "t"},
                                  {.name = "y", .type = "t", .written = true}};
  const FormRecord forms[] = {{steps, regions}};
  const TileRecord record{.parameters = kTypes, .forms = forms, .form_by = form_by};
  return Tile(record).flaw();
}

// What is judged element by element is taken to have one place: any other would be misread.
TEST(ElementByElement, ThereIsOneStepOfOnePlaceAndItsInputsInOrder) {
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[i, j])"), "");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(w[i, j], x[i, j])"),
            "element by element inputs are in the order of regions");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], x[i, j])"),
            "element by element inputs are in the order of regions");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j])"),
            "element by element every region is read once or written");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[j, i], w[i, j])"),
            "element by element all indices are the same");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[j])"),
            "element by element all indices are the same");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f[j](x[i, j], w[i, j])"),
            "element by element a function has one element of each");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[i, j]); y[i, j] = g(x[i, j], w[i, j])"),
            "element by element there is one step");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[i, j])", ""),
            "element by element every region has a type, unless bytes are moved");
}

TEST(Forms, AreThoseOfAParameterThatThereIs) {
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[i, j])", "t", "t"), "");
  EXPECT_EQ(elements_flaw_of("y[i, j] = f(x[i, j], w[i, j])", "t", "u"),
            "its forms are those of no parameter");
}

}  // namespace
}  // namespace sk::effect
