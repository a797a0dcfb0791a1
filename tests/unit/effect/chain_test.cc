// Tiles whose steps read what earlier ones have left: a total, and what is made of it.
#include "lib/op/ops/add_rmsnorm.h"
#include "lib/op/values.h"
#include "tests/unit/effect/bench.h"

namespace sk::effect {
namespace {

using testing::HasSubstr;

constexpr int64_t kM = 12, kN = 6, kFirst = 3, kCount = 4;
constexpr const Schema& kSchema = ops::kAddRmsnorm;

uint32_t number(std::string_view name) {
  return uint32_t(kSchema.operand(name) - kSchema.operands.data()) + 1;  // As terms count.
}

OpDesc without_a_weight() {
  OpDesc op(kSchema);
  op.set(kSchema.field("m"), kM);
  op.set(kSchema.field("n"), kN);
  op.set(kSchema.field("eps"), bits_of(0.5));
  for (uint32_t i = 0; i < kSchema.operands.size(); ++i) {
    if (const Field stride = kSchema.stride_field(i)) op.set(stride, kN);
  }
  op.set(OpDesc::absent_field(number("weight") - 1), 1);
  return op;
}

// Of rows of f32, with parameters of its own for where its second step is.
constexpr const char* kParameters[] = {"type", "m", "n", "row0", "rows", "then0", "then", "eps"};
constexpr RangeRecord kRanges[] = {
    {"i", "row0", "rows", "m"}, {"k", "then0", "then", "m"}, {"j", "0", "n", "n"}};
constexpr RegionRecord kRegions[] = {{.name = "x", .type = "type"},
                                     {.name = "residual", .type = "type"},
                                     {.name = "y", .type = "type", .written = true},
                                     {.name = "total", .type = "type", .written = true}};

class Chain : public testing::Test {
 protected:
  Result<Outputs> run(const char* steps, int64_t then0 = kFirst, int64_t then = kCount) {
    const FormRecord forms[] = {{steps, kRegions, kRanges}};
    const TileRecord record{.parameters = kParameters, .forms = forms};
    const Tile tile(record);
    EXPECT_EQ(tile.flaw(), "");
    const auto rows = [](int64_t count, RegionAccess access) {
      return Region{0, kN * 4, kN * 4, uint32_t(count), 0, 1, access};
    };
    return bench_.run_all(
        tile, {SK_F32, kM, kN, kFirst, kCount, then0, then, bits_of(0.5)},
        {rows(kCount, kRead), rows(kCount, kRead), rows(then, kWrite), rows(kCount, kWrite)},
        {{0, 0, elements("x")}, {1, 0, elements("residual")}});
  }
  std::string refusal(const char* steps, int64_t then0 = kFirst, int64_t then = kCount) {
    const Result<Outputs> made = run(steps, then0, then);
    return made.ok() ? "made" : made.status().message();
  }
  Stream elements(const char* name) {
    return bench_.elements(number(name), 0, {kFirst, kCount, 0, kN});
  }

  Bench bench_{without_a_weight(), 1};
};

constexpr char kAdded[] = "total[i, j] = add(x[i, j], residual[i, j]); ";

TEST_F(Chain, AStepReadsWhatOneBeforeItHasLeft) {
  const Result<Outputs> made =
      run("total[i, j] = add(x[i, j], residual[i, j]); "
          "y[k, j] = rmsnorm[j](total[k, j], eps = eps)");
  ASSERT_TRUE(made.ok()) << made.status().message();
  for (const auto& [region, name] : {std::pair(2u, "y"), std::pair(3u, "total")}) {
    EXPECT_TRUE(same(made.value().of(region), elements(name), bench_.work)) << name;
  }
}

TEST_F(Chain, NotBeforeItIsLeft) {
  EXPECT_THAT(refusal("y[k, j] = rmsnorm[j](total[k, j], eps = eps); "
                      "total[i, j] = add(x[i, j], residual[i, j])"),
              HasSubstr("it reads no total"));
}

TEST_F(Chain, NotOtherRowsOfIt) {
  const char* steps =
      "total[i, j] = add(x[i, j], residual[i, j]); y[k, j] = rmsnorm[j](total[k, j], eps = eps)";
  for (const auto& [first, count] : {std::pair(kFirst + 1, kCount),
                                     {kFirst, kCount - 1},
                                     {kFirst, kCount + 1},
                                     {int64_t(0), kM}}) {
    EXPECT_THAT(refusal(steps, first, count), HasSubstr("total otherwise than it has left it"));
  }
}

TEST_F(Chain, NotAnotherArrayForIt) {
  for (const char* name : {"x", "residual"}) {
    const std::string steps =
        kAdded + ("y[k, j] = rmsnorm[j](" + std::string(name)) + "[k, j], eps = eps)";
    EXPECT_THAT(refusal(steps.c_str()), HasSubstr("is not rows")) << name;
  }
  EXPECT_THAT(refusal("total[i, j] = x[i, j]; y[k, j] = rmsnorm[j](total[k, j], eps = eps)"),
              HasSubstr("otherwise than it has left it"));
}

}  // namespace
}  // namespace sk::effect
