// What a GPU must pass: plans made on the CPU run unchanged and come out as their operations say,
// by 1 to 8 ranks in one launch, on whole numbers, so that every equality is exact. Without a GPU
// the same on the fake one, less of it.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "tests/gpu/machine.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk::cuda {
namespace {

using namespace testing_support;

class Silicon : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Machine& machine = Machine::get();
    std::printf("on %s%s%s\n", machine.device().name().c_str(),
                machine.is_real() ? "" : ", which is fake: ", machine.reason().c_str());
  }
  bool real() const { return Machine::get().is_real(); }
  std::mt19937_64 random_{uint64_t(std::random_device()())};

  void check(const Plan& plan, uint32_t runs) {
    Running running(plan);
    ASSERT_EQ(running.run(plan, random_, runs), "");
  }
};

TEST_F(Silicon, CollectivesOfEverySizeAndRankCount) {
  std::vector<int64_t> counts = {1, 127, 4097};
  for (int i = 0; i < (real() ? 30 : 1); ++i) counts.push_back(1 + int64_t(random_() % 300'000));
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kReduceScatter,
                            OpKind::kBroadcast, OpKind::kBarrier}) {
    for (const uint32_t ranks : {1u, 2u, 4u, 8u}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        for (const int64_t count : counts) {
          const bool symmetric = random_() % 2;
          OpDesc op{.kind = kind, .dtype = dtype, .out_dtype = dtype, .count = count};
          op.symmetric_out = symmetric;
          op.symmetric_in =
              symmetric && (kind == OpKind::kAllreduce || kind == OpKind::kReduceScatter);
          if (kind == OpKind::kBarrier) op = {.kind = kind};
          Target target{.world_size = ranks, .workers = Machine::get().workers(ranks)};
          target.one_shot_bytes = random_() % 2 ? 4096 : 0;
          SCOPED_TRACE(describe({op, target}));
          const Result<Plan> plan = make_plan(op, target);
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          check(plan.value(), real() ? 3 : 1);
          if (HasFatalFailure() || (!real() && count > 127)) break;
        }
      }
    }
  }
}

TEST_F(Silicon, RandomPlans) {
  for (int made = 0; made < (real() ? 200 : 10);) {
    const Case c = random_case(random_, /*ranks_max=*/8);
    const Result<Plan> plan = make_plan(c.op, c.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    bool able = true;
    for (const RankPlan& part : plan->ranks) able &= check_part(*plan, part).ok();
    if (!able || c.target.workers * c.target.world_size > Machine::get().workers(1)) continue;
    ++made;
    SCOPED_TRACE(describe(c));
    check(plan.value(), 3);
    if (HasFatalFailure()) return;
  }
}

TEST_F(Silicon, PlansFromTheirTexts) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(golden_plans_folder())) {
    SCOPED_TRACE(file.path());
    std::ifstream in(file.path());
    const Result<Plan> plan = parse(std::string(std::istreambuf_iterator<char>(in), {}));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    check(plan.value(), 5);
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST_F(Silicon, ProductsOfEveryKernel) {
  std::vector<GemmCase> cases = {
      {.m = 128, .n = 256, .k = 64},
      {.m = 131, .n = 264, .k = 72},
      {.m = 70, .n = 33, .k = 67},
      {.m = 150, .n = 280, .k = 40, .symmetric = false},
      {.m = 136, .n = 72, .k = 50, .transpose_a = true, .transpose_b = true},
  };
  for (int i = 0; i < (real() ? 30 : 0); ++i) {
    GemmCase c{.m = 1 + int64_t(random_() % 600),
               .n = 1 + int64_t(random_() % 600),
               .k = 1 + int64_t(random_() % 300)};
    c.symmetric = random_() % 2;
    c.transpose_b = random_() % 2;
    cases.push_back(c);
  }
  for (GemmCase c : cases) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const uint32_t ranks : {1u, 2u, 4u, 8u}) {
        if (!real() && (ranks > 2 || (dtype != DType::kBF16 && c.m > 100))) continue;
        c.dtype = dtype;
        c.out_dtype = random_() % 2 ? dtype : DType::kF32;
        c.ranks = ranks;
        c.workers = Machine::get().workers(ranks);
        SCOPED_TRACE(describe(c));
        check(plan_gemm(c), 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(Silicon, AnAbortEndsALaunchAndNothingIsLeft) {
  Plan plan = direct_allreduce(2, 33);
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 0;  // Rank 1 never comes.
  World world = random_world(plan, 1, random_);
  uint64_t before = 0;
  for (int i = 0; i < (real() ? 100 : 5); ++i) {
    if (i == 1) before = Machine::get().free_bytes();  // The first loads what stays.
    Running running(plan);
    ASSERT_TRUE(running.operands().write(world.inputs[0]).ok());
    ASSERT_TRUE(
        running.program().run(nullptr, running.operands().ranks(), Running::kPatientNs).ok());
    running.epoch().abort();
    EXPECT_EQ(running.program().wait(nullptr).code(), SK_ERR_ABORTED);
  }
  EXPECT_EQ(Machine::get().free_bytes(), before);
}

}  // namespace
}  // namespace sk::cuda
