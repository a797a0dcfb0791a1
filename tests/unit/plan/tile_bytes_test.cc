// What tile kernels touch beyond the elements they are asked for: plans that leave no room for it
// are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/algo/planner.h"
#include "lib/op/tile_layout.h"
#include "lib/plan/task_info.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

using testing::HasSubstr;

struct Shape {
  bool symmetric_out = true, pack_b = false;
  int64_t m = 40, n = 24, k = 8;
  uint32_t tile_m = 16;
  uint64_t packed_bytes = 1024;
};

Plan gemm_plan(const Shape& shape) {
  TextOp op{.kind = OpKind::kAllreduceGemm};
  op.symmetric_out = shape.symmetric_out;
  op.pack_b = shape.pack_b;
  op.m = shape.m;
  op.n = op.ldc = shape.n;
  op.k = op.lda = shape.k;
  if (op.pack_b) op.ldb = op.n;
  const Target target{
      .world_size = 2, .tile_m = shape.tile_m, .tile_n = 16, .packed_bytes = shape.packed_bytes};
  Result<Plan> plan = make_plan(testing_support::op_desc(op), target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  const Status sound = validate(plan.value());
  EXPECT_TRUE(sound.ok()) << sound.message();
  return std::move(plan).value();
}

// `change` on every region of tasks of operation `op`.
template <typename Change>
Plan with_regions(Plan plan, TaskOp op, const Change& change) {
  for (RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      for (uint32_t i = 0; i < task.region_count && task.op == op; ++i)
        change(task, part.params_of(task), i, part.regions[task.first_region + i]);
    }
  }
  return plan;
}

void expect_refused(const Plan& plan, const std::string& sentence) {
  const Status status = validate(plan);
  EXPECT_EQ(status.code(), SK_ERR_INVALID_ARGUMENT) << dump(plan);
  EXPECT_THAT(status.message(), HasSubstr(sentence));
}

bool is_partial(std::span<const int64_t> params, uint32_t region) {
  return region == 2 && params[kGemmEpilogue] != kGemmStore;
}

// Room for the sums of the tile itself is not enough: kernels write whole panels and groups.
TEST(TileBytes, APartialTileTakesWholePanels) {
  EXPECT_EQ(partial_tile_bytes(64, 32, 4), 8192u);
  EXPECT_EQ(partial_tile_bytes(65, 33, 4), 4u * 8192);
  const Plan plan =
      with_regions(gemm_plan({}), TaskOp::kGemm,
                   [](const Task&, std::span<const int64_t> params, uint32_t i, Region& region) {
                     if (is_partial(params, i)) region.row_bytes = region.pitch = 8191 / 64 * 64;
                   });
  expect_refused(plan, "bytes hold no partial tile of 16 x 8, which takes 8192");
}

TEST(TileBytes, APartialTileBeginsAtALine) {
  const Plan plan =
      with_regions(gemm_plan({}), TaskOp::kGemm,
                   [](const Task&, std::span<const int64_t> params, uint32_t i, Region& region) {
                     if (!is_partial(params, i)) return;
                     region.offset += 4;
                     region.row_bytes = region.pitch = 8192;
                   });
  expect_refused(plan, "a partial tile is one row that begins at a multiple of 64 bytes");
}

TEST(TileBytes, PackedColumnsAreNoFewerBytesThanTheirElements) {
  for (const bool pack_b : {false, true}) {
    const Shape shape{.pack_b = pack_b, .packed_bytes = 704};
    const OpDesc op = gemm_plan({.pack_b = pack_b}).op;
    Target target{.world_size = 2, .tile_m = 16, .tile_n = 16, .packed_bytes = shape.packed_bytes};
    const Result<Plan> plan = make_plan(op, target);
    ASSERT_TRUE(plan.ok());
    expect_refused(plan.value(), "704 bytes hold no packed B of 8 x 24, which takes 768");
  }
}

TEST(TileBytes, PackedWeightsBeginAtALine) {
  const auto shift = [](const Task& task, std::span<const int64_t>, uint32_t i, Region& region) {
    if (i != 1 || task.region_count < 2) return;
    region.offset = 4;
    region.row_bytes = region.pitch = 1020;
  };
  Plan plan = with_regions(gemm_plan({.pack_b = true}), TaskOp::kGemm, shift);
  expect_refused(with_regions(std::move(plan), TaskOp::kPackB, shift),
                 "packed B is one row that begins at a multiple of 64 bytes, not 1 at 4");
}

// Kernels count rows in elements, so one that splits them is stored elsewhere.
TEST(TileBytes, RowsOfATileAreWholeElements) {
  const auto widen = [](const Task& task, std::span<const int64_t>, uint32_t i, Region& region) {
    const bool result = task.op == TaskOp::kGemm ? i + 1 == task.region_count : i == 0;
    if (result && region.rows > 1 && region.pitch == region.row_bytes) ++region.pitch;
  };
  Plan plan = with_regions(gemm_plan({.symmetric_out = false}), TaskOp::kGemm, widen);
  expect_refused(with_regions(std::move(plan), TaskOp::kCopy, widen),
                 "region 3 splits elements of 4 bytes");
}

TEST(TileBytes, TheFirstRowOfAIsInReach) {
  const Plan plan =
      with_regions(gemm_plan({.m = 3, .tile_m = 1}), TaskOp::kGemm,
                   [](const Task&, std::span<const int64_t> params, uint32_t i, Region& region) {
                     if (i == 0 && params[kGemmRow0] > 1) region.pitch = uint64_t(1) << 47;
                   });
  expect_refused(plan, "rows of a with pitch 140737488355328 lie before the tile");
}

// A number that is no operation is refused as one; should a new one be without a record of what it
// does, it is no copy either.
TEST(TileBytes, AnUnknownOperationIsNoCopy) {
  Plan plan = gemm_plan({.symmetric_out = false});
  for (Task& task : plan.ranks[0].tasks) {
    if (task.op != TaskOp::kCopy) continue;
    ASSERT_NE(effect_of(task.op), nullptr);
    task.op = TaskOp(kTaskOpCount + 3);
    EXPECT_EQ(effect_of(task.op), nullptr);
    expect_refused(plan, fmt::format("there is no operation {}", kTaskOpCount + 3));
    return;
  }
  FAIL() << "the plan has no copy";
}

}  // namespace
}  // namespace sk
