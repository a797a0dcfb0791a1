// What a GPU must withstand: graphs and plain runs mixed, several plans in flight, aborts by the
// thousand, and nothing left of any of them. Without a GPU the same on the fake one, a few times.
#include <gtest/gtest.h>

#include <chrono>

#include "lib/algo/planner.h"
#include "tests/gpu/delays.h"
#include "tests/gpu/running.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/op_words.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk::cuda {
namespace {

using namespace testing_support;

class Endurance : public testing::Test {
 protected:
  Endurance() { RecordProperty("seed", std::to_string(seed_)); }
  const Machine& machine() const { return Machine::get(); }
  int times(int on_silicon, int on_fake) const {
    return machine().is_real() ? on_silicon : on_fake;
  }
  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
};

Plan allreduce_of_ordinary_memory(uint32_t ranks, int64_t count) {
  const OpDesc op = testing_support::op_desc({.kind = OpKind::kAllreduce, .count = count});
  return must(make_plan(op, {.world_size = ranks, .workers = 1}));
}

// Staged data and entries alternate from run to run, so a lost or doubled run index shows. In each
// program other ranks are late.
TEST_F(Endurance, GraphReplaysAndPlainRunsOfLateRanksMix) {
  std::vector<Plan> plans = {staged_allreduce(3, 17)};
  for (const uint32_t ranks : {2u, 8u}) plans.push_back(allreduce_of_ordinary_memory(ranks, 1000));
  plans.push_back(plan_gemm({.m = 130, .n = 70, .k = 72, .ranks = 2, .workers = 1}));
  int replays = 0;
  for (const int wanted = times(1000, 8); replays < wanted;) {
    const Plan plan = with_delays(plans[random_() % plans.size()], 1 << 18, random_);
    Running running(plan);
    const Replay replay(machine(), [&] { must(running.start(machine().stream())); });
    World world = random_world(plan, /*runs=*/uint32_t(times(40, 6)), random_);
    const std::string difference = running.run(world, [&](uint32_t) {
      if (random_() % 2 == 0) return running.start(machine().stream());
      ++replays;
      replay.launch();
      return Status();
    });
    ASSERT_EQ(difference, "") << "seed " << seed_;
  }
}

// The delays are there, and what comes out is what came out without them.
TEST_F(Endurance, LateRanksComputeTheSame) {
  const Plan plan = plan_gemm({.m = 130, .n = 70, .k = 72, .ranks = 2, .workers = 2});
  std::mt19937_64 fixed(1);
  size_t delays = 0;
  for (int i = 0; i < 20; ++i)
    delays += with_delays(plan, 16, fixed).ranks[0].tasks.size() - plan.ranks[0].tasks.size();
  EXPECT_GT(delays, 0u);
  for (int i = 0; i < times(50, 4); ++i) {
    const Plan slow = with_delays(plan, 1 << 16, random_);
    World world = random_world(plan, /*runs=*/1, random_);
    Running plain(plan), delayed(slow);
    ASSERT_EQ(plain.run(world), "") << "seed " << seed_;
    const std::vector<OperandBytes> outputs = world.outputs[0];
    ASSERT_EQ(delayed.run(world), "") << "seed " << seed_;
    for (uint32_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(world.outputs[0][rank][1], outputs[rank][1]);
  }
}

TEST_F(Endurance, RunsOfOneGraphFollowEachOther) {
  const Plan plan = staged_allreduce(2, 33);
  Running running(plan);
  const Replay replay(machine(), [&] {
    for (int i = 0; i < 3; ++i) must(running.start(machine().stream()));
  });
  for (int i = 0; i < times(100, 2); ++i) {
    World world = random_world(plan, /*runs=*/1, random_);
    ASSERT_EQ(running.run(world, [&](uint32_t) { return replay.launch(), Status(); }), "");
  }
}

TEST_F(Endurance, SeveralPlansAreInFlight) {
  const Driver& driver = machine().device().driver();
  const Plan plans[] = {staged_allreduce(3, 17), direct_allreduce(2, 40), put_pipeline(9, 3)};
  std::vector<abi::Stream> streams(std::size(plans));
  for (abi::Stream& stream : streams)
    machine().check(driver.cuStreamCreate(&stream, abi::kStreamNonBlocking), "cuStreamCreate");
  std::vector<std::unique_ptr<Running>> running;
  for (const Plan& plan : plans) running.push_back(std::make_unique<Running>(plan));
  for (int round = 0; round < times(200, 2); ++round) {
    std::vector<World> worlds;
    for (size_t i = 0; i < streams.size(); ++i) {
      worlds.push_back(random_world(plans[i], /*runs=*/1, random_));
      must(running[i]->operands().write(worlds[i].inputs[0]));
    }
    for (size_t i = 0; i < streams.size(); ++i) must(running[i]->start(streams[i]));
    for (size_t i = 0; i < streams.size(); ++i) {
      must(running[i]->program().wait(streams[i]));
      must(running[i]->operands().read(worlds[i].outputs.emplace_back()));
      ASSERT_EQ(first_difference(plans[i], worlds[i]), "") << "seed " << seed_;
    }
  }
  for (const abi::Stream stream : streams) driver.cuStreamDestroy(stream);
}

// How soon is measured by the benchmark of that; here each only has to come, in its time.
TEST_F(Endurance, EveryAbortEndsALaunchThatWaits) {
  Plan plan = signalled_allreduce(2, 33, /*late=*/0);
  for (Task& task : plan.ranks[1].tasks) task.post_count = 0;  // Rank 0 waits in vain.
  const World world = random_world(plan, /*runs=*/1, random_);
  for (int i = 0; i < times(1000, 5); ++i) {
    Running running(plan);
    must(running.operands().write(world.inputs[0]));
    must(running.start(machine().stream()));
    const auto began = std::chrono::steady_clock::now();
    running.epoch().abort();
    ASSERT_EQ(running.program().wait(machine().stream()).code(), SK_ERR_ABORTED);
    ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  }
}

TEST_F(Endurance, AWaitRunsOutByTheGpusOwnClock) {
  Plan plan = signalled_allreduce(2, 33, /*late=*/0);
  for (Task& task : plan.ranks[1].tasks) task.post_count = 0;
  Running running(plan);
  // Long enough for the other rank's blocks to begin, which on a CPU are threads among many.
  constexpr int64_t kTimeoutNs = 1'000'000'000;
  must(running.program().run(machine().stream(), running.operands().ranks(), kTimeoutNs));
  const Status status = running.program().wait(machine().stream());
  EXPECT_EQ(status.code(), SK_ERR_TIMEOUT);
  EXPECT_NE(status.message().find("rank 0 waited"), std::string::npos) << status.message();
}

TEST_F(Endurance, LeavesNoMemoryBehind) {
  const auto use = [&] {
    const Plan plan = allreduce_of_ordinary_memory(4, 5000);
    Running running(plan);
    const Replay replay(machine(), [&] { must(running.start(machine().stream())); });
    World world = random_world(plan, /*runs=*/2, random_);
    EXPECT_EQ(running.run(world, [&](uint32_t) { return replay.launch(), Status(); }), "");
  };
  use();  // The first use loads what stays.
  const uint64_t before = machine().free_bytes();
  for (int i = 0; i < times(100, 2); ++i) use();
  EXPECT_EQ(machine().free_bytes(), before);
}

}  // namespace
}  // namespace sk::cuda
