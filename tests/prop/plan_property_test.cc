// Every planner, on random operations: its plan is valid, comes back from its text, is made of the
// parts that ranks plan alone, and computes exactly what the op says, in whatever order the
// reference executor runs it. SK_SEED=N replays one seed; SK_CASES=N runs more.
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

uint64_t from_env(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Planners : public testing::Test {
 protected:
  template <typename Body>
  void for_cases(uint64_t count, const Body& body) {
    const uint64_t only = from_env("SK_SEED", 0);
    const uint64_t first = only ? only : 1, last = only ? only : from_env("SK_CASES", count);
    for (uint64_t seed = first; seed <= last && !HasFatalFailure(); ++seed) {
      std::mt19937_64 random(seed);
      const Case c = random_case(random);
      SCOPED_TRACE(fmt::format("SK_SEED={}: {}", seed, describe(c)));
      Result<Plan> plan = make_plan(c.op, c.target);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      body(plan.value(), random);
    }
  }
};

TEST_F(Planners, MakeValidPlans) {
  for_cases(600, [](const Plan& plan, std::mt19937_64&) {
    const Status status = validate(plan);
    ASSERT_TRUE(status.ok()) << status.message();
  });
}

TEST_F(Planners, MakePlansThatComeBackFromTheirText) {
  for_cases(100, [](const Plan& plan, std::mt19937_64&) {
    const Result<Plan> back = parse(dump(plan));
    ASSERT_TRUE(back.ok()) << back.status().message();
    ASSERT_TRUE(back.value() == plan);
  });
}

TEST_F(Planners, MakeEachRanksPartAlikeAlone) {
  for_cases(100, [](const Plan& plan, std::mt19937_64&) {
    Plan joined = plan;
    for (RankPlan& part : joined.ranks) {
      Result<Plan> alone = make_plan_part(plan.op, plan.target, part.rank);
      ASSERT_TRUE(alone.ok()) << alone.status().message();
      ASSERT_EQ(alone->buffers, plan.buffers);
      ASSERT_EQ(alone->ranks.size(), 1u);
      part = alone->ranks[0];
    }
    ASSERT_TRUE(joined == plan);
  });
}

TEST_F(Planners, ComputeWhatTheOpSaysInAnyOrder) {
  for_cases(80, [](const Plan& plan, std::mt19937_64& random) {
    World world = random_world(plan, /*runs=*/3, random);
    for (int order = 0; order < 3; ++order) {
      const Status status = run_reference(plan, world, random());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(first_difference(plan, world), "");
    }
  });
}

// With as many workers as a GPU has, tiles come in another order; ragged bands among them.
TEST(GemmPlanner, TilesInBandsAreEveryTileOnce) {
  std::mt19937_64 random(5);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{75, 70}, {8, 90}, {130, 9}, {64, 64}}) {
    TextOp op{.kind = OpKind::kAllreduceGemm, .symmetric_out = true};
    op.m = m;
    op.n = n;
    op.k = op.lda = 3;
    op.ldc = n;
    Target target{.world_size = 2, .workers = 40, .tile_m = 8, .tile_n = 8};
    target.packed_bytes = uint64_t(n) * 3 * sizeof(float);
    const Result<Plan> plan = make_plan(op_desc(op), target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_TRUE(validate(plan.value()).ok()) << validate(plan.value()).message();
    World world = random_world(plan.value(), /*runs=*/2, random);
    ASSERT_TRUE(run_reference(plan.value(), world, 1).ok());
    ASSERT_EQ(first_difference(plan.value(), world), "");
  }
}

// A bug planted in the executor: it takes queue order for an order of ends, too, or lets posts out
// in any order. The comparison above must be one that sees it.
TEST_F(Planners, NeedAnExecutorThatHeedsFlags) {
  for (const TaskFlags flag : {kAfterAll, kPostsInOrder}) {
    int wrong = 0;
    for_cases(80, [&](const Plan& plan, std::mt19937_64& random) {
      Plan loose = plan;
      for (RankPlan& part : loose.ranks) {
        for (Task& task : part.tasks) task.flags = uint8_t(task.flags & ~flag);
      }
      World world = random_world(loose, /*runs=*/3, random);
      for (int order = 0; order < 3; ++order) {
        const bool ran = run_reference(loose, world, random()).ok();
        if (ran && !first_difference(loose, world).empty()) ++wrong;
      }
    });
    EXPECT_GT(wrong, 0) << int(flag);
  }
}

// Each has a limit of its own below which it is staged all the same: what ordinary memory gains by
// one hand-off less costs mapped operands a copy.
TEST_F(Planners, StageMappedOperandsUpToTheirOwnLimitOnly) {
  const Target target{
      .world_size = 2, .one_shot_bytes = 256 << 10, .one_shot_symmetric_bytes = 1024};
  for (const OpKind kind :
       {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kReduceScatter, OpKind::kBroadcast}) {
    for (const bool symmetric : {false, true}) {
      for (const int64_t count : {100, 10'000}) {
        const OpDesc op = op_desc(
            {.kind = kind, .symmetric_in = symmetric, .symmetric_out = symmetric, .count = count});
        Result<Plan> plan = make_plan(op, target);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        const bool staged = workspace_bytes(*plan, 0, 2) > 0;
        EXPECT_EQ(staged, !symmetric || count == 100) << describe(op);
      }
    }
  }
}

}  // namespace
}  // namespace sk
