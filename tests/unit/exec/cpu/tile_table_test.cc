// Every tile operation has an oracle and a function on this machine, and what has none is refused
// before it runs.
#include "lib/exec/cpu/tile_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/plan/builder.h"

namespace sk::cpu {
namespace {

using testing::HasSubstr;

constexpr int64_t kCopyOf[kCopyParamCount] = {kStoreDefault};

RankPlan one_task(TaskOp op, std::initializer_list<Region> regions,
                  std::span<const int64_t> params) {
  RankBuilder builder(/*rank=*/3, /*queue_count=*/1);
  builder.add({.op = op, .regions = regions, .params = params});
  return builder.finish();
}
RankPlan copy_task() {
  return one_task(TaskOp::kCopy, {flat(0, 0, 64, kRead), flat(1, 0, 64, kWrite)}, kCopyOf);
}
Status refusal(const RankPlan& part) { return prepare_tile(part, part.tasks[0]).status().clone(); }

TEST(CpuTiles, EveryRecordHasAReferenceAndFunctions) {
  for (const TileOp* tile : all_tile_ops()) {
    EXPECT_NE(tile->reference, nullptr) << tile->signature.name;
    const CpuTile* functions = cpu_tile(tile->id);
    ASSERT_NE(functions, nullptr) << tile->signature.name;
    EXPECT_NE(functions->choose, nullptr) << tile->signature.name;
    for (const TileOp* other : all_tile_ops()) {
      EXPECT_EQ(cpu_tile(other->id) == functions, other == tile);
    }
  }
}

TEST(CpuTiles, WhatTheProgramRunsItselfHasNoFunction) {
  for (const TaskOp kind : {TaskOp::kNop, TaskOp::kEnter, TaskOp::kAwait, TaskOp::kPut}) {
    const RankPlan part = one_task(kind, {}, {});
    Result<PreparedTile> tile = prepare_tile(part, part.tasks[0]);
    ASSERT_TRUE(tile.ok()) << tile.status().message();
    EXPECT_EQ(tile->function, nullptr);
  }
}

TEST(CpuTiles, ANumberWithoutARecordIsRefused) {
  for (const uint32_t number : {kTaskOpCount, uint32_t(UINT16_MAX)}) {
    RankPlan part = copy_task();
    part.tasks[0].op = TaskOp(number);
    EXPECT_EQ(refusal(part).code(), SK_ERR_UNSUPPORTED);
    EXPECT_EQ(refusal(part).message(), fmt::format("rank 3: no kernel for operation {}", number));
  }
}

// What is long enough that others may take it goes by bytes, or by operations where a tile has
// them.
TEST(CpuTiles, TasksTakeTimeForTheirBytesOrTheirOperations) {
  constexpr uint64_t kBytes = 64 << 10;
  const RankPlan part =
      one_task(TaskOp::kCopy, {flat(0, 0, kBytes, kRead), flat(1, 0, kBytes, kWrite)}, kCopyOf);
  EXPECT_EQ(prepare_tile(part, part.tasks[0]).value().least_ns, 2 * kBytes / 16);
  CpuTile counted = *cpu_tile(TaskOp::kCopy);
  counted.flops = [](const TileShape& shape) { return 1280 * uint64_t(shape.regions.size()); };
  EXPECT_EQ(prepare_tile(part, part.tasks[0], counted).value().least_ns, 2u * 1280 / 128);
  const int64_t gemm[kGemmParamCount] = {SK_F32, SK_F32, 0,  256,        512, 64, 0,
                                         128,    0,      32, kGemmStore, 0,   0};
  EXPECT_EQ(cpu_tile(TaskOp::kGemm)->flops({.regions = {}, .params = gemm}), 2u * 128 * 32 * 64);
}

// A task without a function would do nothing, and post.
TEST(CpuTiles, AnOperationThatNoKernelDoesIsRefused) {
  const RankPlan part = copy_task();
  const CpuTile nothing{.choose = [](const TileShape&, CpuIsa) -> TileFn { return nullptr; }};
  ASSERT_TRUE(prepare_tile(part, part.tasks[0]).ok());
  Result<PreparedTile> tile = prepare_tile(part, part.tasks[0], nothing);
  ASSERT_FALSE(tile.ok());
  EXPECT_EQ(tile.status().code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(tile.status().message(),
              HasSubstr("rank 3: this machine has no kernel for a copy like this: copy hint="));
}

TEST(CpuTiles, AnAverageOfIntegersHasNoKernel) {
  const int64_t average[kReduceParamCount] = {SK_I32, SK_I32, SK_AVG, kStoreDefault};
  const RankPlan part =
      one_task(TaskOp::kReduce, {flat(0, 0, 64, kRead), flat(1, 0, 64, kWrite)}, average);
  EXPECT_THAT(refusal(part).message(), HasSubstr("no kernel for a reduce like this"));
}

TEST(CpuTiles, ACheckNamesTheRank) {
  const RankPlan part = copy_task();
  const CpuTile strict{
      .check = [](const TileShape&) -> Status { return error(SK_ERR_UNSUPPORTED, "never"); },
      .choose = [](const TileShape&, CpuIsa) -> TileFn { return [](const TileArgs&) {}; }};
  Result<PreparedTile> tile = prepare_tile(part, part.tasks[0], strict);
  ASSERT_FALSE(tile.ok());
  EXPECT_EQ(tile.status().message(), "rank 3: never");
}

TEST(CpuTiles, ProductsAloneNeedScratch) {
  const RankPlan part = copy_task();
  EXPECT_EQ(prepare_tile(part, part.tasks[0])->reserve, nullptr);
  EXPECT_NE(cpu_tile(TaskOp::kGemm)->reserve, nullptr);
}

}  // namespace
}  // namespace sk::cpu
