// Two blocks of a cluster as one worker: every operation of a plan comes out as by single blocks,
// and what ends one of them ends both.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cuda/exec/decode.h"
#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "tests/devhost/kernels.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

#if defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

void check(GemmCase c, uint32_t tile_m = 256) {
  c.tile_m = tile_m;
  SCOPED_TRACE(describe(c));
  const Plan plan = plan_gemm(c);
  ASSERT_FALSE(plan.ranks.empty());
  std::mt19937_64 random(uint64_t(c.m * 31 + c.n));
  World world = random_world(plan, /*runs=*/kSlow ? 2 : 3, random);
  ASSERT_EQ(devhost::run(plan, world, {.one_launch = c.m % 2 == 0, .pairs = true}), "");
}

TEST(PairsOfBlocks, ProductsOfEveryRaggedness) {
  check({.m = 256, .n = 256, .k = 64, .ranks = 1, .workers = 1});
  check({.m = 259, .n = 264, .k = 72});
  check({.m = 1, .n = 8, .k = 200});     // The second block has no rows,
  check({.m = 193, .n = 40, .k = 328});  // or one of its groups has none.
  if (kSlow) return;
  check({.m = 300, .n = 257, .k = 8, .dtype = DType::kF16, .out_dtype = DType::kF16});
  check({.m = 300, .n = 520, .k = 456, .ranks = 1, .workers = 2}, 512);
  check({.m = 300, .n = 40, .k = 72}, 128);  // Tiles of one block's rows.
  check({.m = 300, .n = 281, .k = 40, .pad_c = 1});
  check({.m = 40, .n = 33, .k = 67});  // The copy engine cannot have it: no pairs.
}

TEST(PairsOfBlocks, EveryEpilogueAndCopies) {
  for (const uint32_t ranks : {2u, 3u}) {
    for (const bool symmetric : {true, false}) {
      if (kSlow && (ranks == 2) == symmetric) continue;
      check({.m = 300, .n = 80, .k = 72, .ranks = ranks, .symmetric = symmetric, .pad_c = 8});
    }
  }
  if (kSlow) return;
  check({.m = 300, .n = 280, .k = 40, .out_dtype = DType::kF32, .ranks = 3});
  check({.m = 300, .n = 80, .k = 40, .symmetric = false, .mapped = false});
}

// Both blocks load strips of a B [k, n], or rows of a B [n, k], for both.
TEST(PairsOfBlocks, RawOperands) {
  for (const bool turned_b : {true, false}) {
    check({.m = 300, .n = 264, .k = 136, .transpose_b = turned_b, .pad_b = 8, .raw_b = true});
    if (kSlow) continue;
    check({.m = 512, .n = 80, .k = 648, .ranks = 1, .transpose_b = turned_b, .raw_b = true});
    check({.m = 259,
           .n = 520,
           .k = 72,
           .dtype = DType::kF16,
           .out_dtype = DType::kF16,
           .symmetric = false,
           .transpose_b = turned_b,
           .raw_b = true});
  }
}

TEST(PairsOfBlocks, RowsOfPeers) {
  check({.m = 300, .n = 40, .k = 72, .ranks = 3, .gathers = true});
  if (kSlow) return;
  check({.m = 600, .n = 280, .k = 40, .symmetric = false, .gathers = true});
  check({.m = 301, .n = 40, .k = 72, .ranks = 3, .mapped = false, .gathers = true});
}

TEST(PairsOfBlocks, OperationsWithoutProducts) {
  std::mt19937_64 random(7);
  for (const Plan& plan : {direct_allreduce(4, 33), staged_allreduce(3, 17), put_pipeline(9, 3)}) {
    for (const bool one_launch : {true, false}) {
      World world = random_world(plan, /*runs=*/4, random);
      ASSERT_EQ(devhost::run(plan, world, {.one_launch = one_launch, .pairs = true}), "");
    }
  }
}

TEST(PairsOfBlocks, RandomPlans) {
  std::mt19937_64 random(11);
  for (int made = 0; made < (kSlow ? 6 : 20);) {
    const Case c = random_case(random, /*ranks_max=*/3);
    Result<Plan> plan = make_plan(c.op, c.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    bool able = true;
    for (const RankPlan& part : plan->ranks) able = able && cuda::check_part(*plan, part).ok();
    if (!able) continue;
    ++made;
    SCOPED_TRACE(describe(c));
    World world = random_world(plan.value(), /*runs=*/3, random);
    ASSERT_EQ(devhost::run(plan.value(), world, {.one_launch = made % 2 == 0, .pairs = true}), "");
  }
}

TEST(PairsOfBlocks, PlansFromTheirTexts) {
  std::mt19937_64 random(3);
  for (const auto& file :
       std::filesystem::directory_iterator(SK_SOURCE_DIR "/tests/golden/plans")) {
    SCOPED_TRACE(file.path());
    std::ifstream in(file.path());
    Result<Plan> plan = parse(std::string(std::istreambuf_iterator<char>(in), {}));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    if (kSlow && plan->world_size() > 4) continue;
    World world = random_world(plan.value(), /*runs=*/2, random);
    ASSERT_EQ(devhost::run(plan.value(), world, {.one_launch = false, .pairs = true}), "");
  }
}

// Rank 1 never comes.
Plan without_rank_1(Plan plan) {
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 0;
  return plan;
}

TEST(PairsOfBlocks, BothStopWhereOneRunsOutOfTime) {
  const Plan plan = without_rank_1(direct_allreduce(2, 33));
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  EXPECT_EQ(devhost::run(plan, world, {.timeout_ns = 50'000'000, .pairs = true}),
            "rank 0 queue 0 task 1 ran out of time: rank 1, signal -1, wanted 1, saw 0");
}

// In the midst of products, whose stages both blocks fill.
TEST(PairsOfBlocks, BothStopBehindProductsUnderWay) {
  Plan plan = plan_gemm({.m = 512, .n = 256, .k = 64, .tile_m = 256});
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 2;  // Enters, but computes nothing.
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  const std::string found = devhost::run(plan, world, {.timeout_ns = 200'000'000, .pairs = true});
  EXPECT_NE(found.find("ran out of time"), std::string::npos) << found;
}

TEST(PairsOfBlocks, AnAbortEndsBoth) {
  const Plan plan = without_rank_1(direct_allreduce(2, 33));
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  devhost::DeviceWorld device(plan, devhost::kernel_for(plan, true, true), {.pairs = true});
  std::thread other([&] {
    device.wait_for_entry();  // Before it, nothing would begin.
    device.abort();
  });
  EXPECT_EQ(device.run(world).message(),
            "rank 0 queue 0 task 1 was aborted: rank 1, signal -1, wanted 1, saw 0");
  other.join();
}

// Nothing begins, although no wait would be in vain: the callers' memory stays as it was.
TEST(PairsOfBlocks, AnAbortBeforeTheLaunchEndsBoth) {
  for (const uint32_t ranks : {1u, 2u}) {
    const Plan plan = direct_allreduce(ranks, 33);
    std::mt19937_64 random(1);
    World world = random_world(plan, 1, random);
    devhost::DeviceWorld device(plan, devhost::kernel_for(plan, true, true), {.pairs = true});
    device.abort();
    const std::string found = device.run(world).message();
    EXPECT_NE(found.find("was aborted: rank"), std::string::npos) << found;
    for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_TRUE(device.untouched(rank)) << rank;
  }
}

}  // namespace
}  // namespace sk
