// Bugs planted in device code, or in how it is run, are noticed: by what comes out, or by
// ThreadSanitizer, whose build of these tests sees those that a CPU's strong memory hides.
#include "tests/devhost/planted.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/devhost/kernels.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace devhost;
using namespace testing_support;

#if defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class PlantedBugs : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Runs again and again until something is noticed, and says it on the way out.
[[noreturn]] void run_until_noticed(const Plan& plan, const Planted& bugs, Options options = {}) {
  planted = bugs;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    World world = testing_support::random_world(plan, /*runs=*/3, random);
    const std::string found = run(plan, world, options);
    if (found.empty()) continue;
    std::fprintf(stderr, "noticed: %s\n", found.c_str());
    std::_Exit(1);
  }
  std::_Exit(0);
}

bool failed(int status) { return status != 0; }

constexpr char kNoticed[] = "noticed: run .* differs|data race";

// Its partial tile is told of, and those of the tiles before it, while some rows are on their way.
TEST_F(PlantedBugs, APostBeforeTheLastWarpIsDone) {
  if (!kSanitized) GTEST_SKIP() << "the warp is rarely late enough: ThreadSanitizer's to see";
  EXPECT_EXIT(run_until_noticed(plan_gemm({.m = 512, .n = 16, .k = 16, .workers = 1}),
                                {.early_done = true}),
              failed, kNoticed);
}

TEST_F(PlantedBugs, AStageGivenBackEarly) {
  for (const uint32_t tile_n : {256u, 128u}) {  // Wide blocks, and narrow ones.
    const Plan plan =
        plan_gemm({.m = 8, .n = 8, .k = 1024, .ranks = 1, .workers = 1, .tile_n = tile_n});
    EXPECT_EXIT(run_until_noticed(plan, {.early_stage = true}), failed, kNoticed);
  }
}

TEST_F(PlantedBugs, RowsOfAnotherRanksMatrix) {
  for (const bool gathers : {true, false}) {
    const Plan plan = plan_gemm({.m = 8, .n = 16, .k = 16, .gathers = gathers});
    EXPECT_EXIT(run_until_noticed(plan, {.first_view = true}), failed, kNoticed);
  }
}

// Whose rows of k, or strips of columns, lie elsewhere.
TEST_F(PlantedBugs, ATurnedOperandWithItsOffsetsSwapped) {
  const Plan plan = plan_gemm({.m = 8, .n = 72, .k = 16, .ranks = 1, .workers = 1, .raw_b = true});
  EXPECT_EXIT(run_until_noticed(plan, {.swapped_offsets = true}), failed, kNoticed);
}

// Of a pair: one tile, whose halves of B the two blocks load for each other.
Plan paired_product(int64_t k) {
  return plan_gemm({.m = 256, .n = 16, .k = k, .ranks = 1, .workers = 1, .tile_m = 256});
}

TEST_F(PlantedBugs, AStageThatOnlyOneBlockHasLeft) {
  EXPECT_EXIT(run_until_noticed(paired_product(1024), {.own_arrivals_only = true}, {.pairs = true}),
              failed, kNoticed);
}

TEST_F(PlantedBugs, BytesOfTheOtherBlockNotWaitedFor) {
  // So few slices that no stage is loaded twice: what is not expected would end a later phase.
  EXPECT_EXIT(run_until_noticed(paired_product(192), {.own_bytes_only = true}, {.pairs = true}),
              failed, kNoticed);
}

TEST_F(PlantedBugs, APostBeforeTheOtherBlocksShare) {
  const Plan plan = plan_gemm({.m = 512, .n = 16, .k = 16, .symmetric = false, .tile_m = 256});
  EXPECT_EXIT(run_until_noticed(plan, {.own_share_only = true}, {.pairs = true}), failed, kNoticed);
}

TEST_F(PlantedBugs, ABlockThatEndsBeforeTheOther) {
  EXPECT_EXIT(run_until_noticed(paired_product(192), {.no_last_meeting = true}, {.pairs = true}),
              failed, "noticed: .* which has ended");
}

TEST_F(PlantedBugs, ARunIndexThatStays) {
  EXPECT_EXIT(run_until_noticed(testing_support::staged_allreduce(3, 17), {.frozen_run = true},
                                {.one_launch = false}),
              failed, kNoticed);
}

TEST_F(PlantedBugs, NobodyLooksAtTheAbortWord) {
  Plan plan = testing_support::direct_allreduce(2, 33);
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 0;  // Rank 1 never comes.
  std::mt19937_64 random(1);
  World world = testing_support::random_world(plan, 1, random);
  planted = {.no_abort_poll = true};
  DeviceWorld device(plan, kernel_for(plan), {.timeout_ns = 50'000'000});
  device.abort();
  const std::string found = device.run(world).message();
  planted = {};
  EXPECT_NE(found.find("ran out of time"), std::string::npos) << found;
}

TEST_F(PlantedBugs, APostThatOrdersNothing) {
  if (!kSanitized) GTEST_SKIP() << "a CPU orders the stores all the same: ThreadSanitizer's to see";
  EXPECT_EXIT(run_until_noticed(testing_support::put_pipeline(9, 3), {.relaxed_post = true}),
              failed, "data race");
}

TEST_F(PlantedBugs, NoFenceBeforeTheCopyEngine) {
  if (!kSanitized) GTEST_SKIP() << "a CPU has no second proxy: ThreadSanitizer's to see";
  const Plan plan = plan_gemm({.m = 8, .n = 64, .k = 16, .tile_m = 8, .tile_n = 16});
  EXPECT_EXIT(run_until_noticed(plan, {.no_proxy_fence = true}), failed, "data race");
}

}  // namespace
}  // namespace sk
