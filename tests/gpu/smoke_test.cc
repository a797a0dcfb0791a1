// What a launch may be, tried before all else: one that is cooperative, one in clusters, one that
// is both, each plainly and from a graph. By the smallest plans and products that have them.
#include <gtest/gtest.h>

#include "lib/algo/planner.h"
#include "lib/op/ops/collectives.h"
#include "tests/gpu/running.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/worlds.h"

namespace sk::cuda {
namespace {

using namespace testing_support;

class Smoke : public testing::Test {
 protected:
  Smoke() { RecordProperty("seed", std::to_string(seed_)); }
  const Machine& machine() const { return Machine::get(); }
  // Two runs of the plan, by plain launches or by one graph that has the launch.
  void check(const Plan& plan, bool by_graph, const ProgramOptions& options = {}) {
    Running running(plan, options);
    World world = random_world(plan, /*runs=*/2, random_);
    if (!by_graph) {
      ASSERT_EQ(running.run(world), "") << "seed " << seed_;
      return;
    }
    const Replay replay(machine(), [&] { must(running.start(machine().stream())); });
    const auto start = [&](uint32_t) { return replay.launch(), Status(); };
    ASSERT_EQ(running.run(world, start), "") << "seed " << seed_;
  }
  bool has_pairs() const { return machine().pair_workers(1) != 0; }

  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
};

Plan small_sum(uint32_t ranks) {
  return must(
      make_plan(describe(ops::kAllreduce, {.count = 1000}), {.world_size = ranks, .workers = 1}));
}
// By pairs of blocks: both of a cluster have rows.
Plan small_product(uint32_t workers) {
  return plan_gemm({.m = 256, .n = 256, .k = 64, .ranks = 1, .workers = workers, .tile_m = 256});
}

TEST_F(Smoke, ACooperativeLaunch) {
  check(small_sum(1), /*by_graph=*/false);
  check(small_sum(2), /*by_graph=*/false);  // Its blocks wait for each other.
}

TEST_F(Smoke, ACooperativeLaunchInAGraph) { check(small_sum(2), /*by_graph=*/true); }

// Occupancy is asked for one cluster without the cooperative attribute: what the driver then says
// must hold for whole launches.
TEST_F(Smoke, AClusterLaunchIsResidentAsTheDriverSays) {
  const Kernel& kernel = machine().device().kernel(kRunPairsBf16);
  if (kernel.needs.block_threads == 0) return;  // No sm_90a.
  EXPECT_GT(kernel.blocks_max, 0u) << "the driver names no resident cluster";
  EXPECT_LE(kernel.blocks_max, machine().device().multiprocessors());
}

TEST_F(Smoke, ACooperativeLaunchOfClusters) {
  if (has_pairs()) check(small_product(1), /*by_graph=*/false, {.pairs = true});
}

TEST_F(Smoke, ACooperativeLaunchOfClustersInAGraph) {
  if (has_pairs()) check(small_product(1), /*by_graph=*/true, {.pairs = true});
}

// As many pairs as the driver says can be resident.
TEST_F(Smoke, ACooperativeLaunchOfClustersThatFillsTheGpu) {
  if (!has_pairs()) return;
  const uint32_t pairs = machine().is_real() ? machine().pair_workers(1) : 2;
  const Plan plan = plan_gemm(
      {.m = 256 * int64_t(pairs), .n = 64, .k = 64, .ranks = 1, .workers = pairs, .tile_m = 256});
  check(plan, /*by_graph=*/false, {.pairs = true});
}

}  // namespace
}  // namespace sk::cuda
