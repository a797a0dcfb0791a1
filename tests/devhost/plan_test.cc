// The interpreter kernel as device code on the CPU: every operation of random plans, and of plans
// from their texts, comes out as the op says, in one launch of all ranks and in one launch each.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cuda/exec/decode.h"
#include "cuda/exec/kernels.h"
#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "tests/devhost/kernels.h"
#include "tests/devhost/planted.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/op_words.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

TEST(DeviceCode, HandMadePlans) {
  std::mt19937_64 random(7);
  for (const Plan& plan :
       {direct_allreduce(4, 33), direct_allreduce(3, 20, DType::kI32, RedOp::kProd),
        staged_allreduce(3, 17), put_pipeline(9, 3)}) {
    for (const bool one_launch : {true, false}) {
      World world = random_world(plan, /*runs=*/4, random);
      ASSERT_EQ(devhost::run(plan, world, {.one_launch = one_launch}), "");
    }
  }
}

bool is_supported(const Plan& plan) {
  for (const RankPlan& part : plan.ranks)
    if (!cuda::check_part(plan, part).ok()) return false;
  return true;
}

// The host chooses kernels by a table of its own.
TEST(DeviceCode, KernelsCanDoWhatIsSaidOfThem) {
  for (uint32_t id = 0; id < cuda::kKernelCount; ++id) {
    const cuda::KernelTraits& said = cuda::traits_of(cuda::KernelId(id));
    for (uint32_t op = 0; op < kTaskOpCount; ++op) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32}) {
        for (const cuda::MatrixLayout layout :
             {cuda::MatrixLayout::kColumns, cuda::MatrixLayout::kRows,
              cuda::MatrixLayout::kTurned}) {
          const bool multiplies = (said.types >> uint32_t(dtype) & 1) != 0 &&
                                  (said.layouts >> uint32_t(layout) & 1) != 0;
          const bool is_said =
              (said.ops >> op & 1) != 0 && (!cuda::is_gemm(TaskOp(op)) || multiplies);
          EXPECT_EQ(devhost::can(cuda::KernelId(id), TaskOp(op), dtype, layout), is_said)
              << said.name << ", " << op << ", " << dtype_name(dtype) << ", " << int(layout);
        }
      }
    }
  }
}

class RandomPlans : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomPlans, ComputeWhatTheOpSays) {
  std::mt19937_64 random(GetParam());
  for (int made = 0; made < 10;) {
    const Case c = random_case(random, /*ranks_max=*/4);
    Result<Plan> plan = make_plan(c.op, c.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    if (!is_supported(plan.value())) continue;
    ++made;
    SCOPED_TRACE(describe(c));
    World world = random_world(plan.value(), /*runs=*/3, random);
    ASSERT_EQ(devhost::run(plan.value(), world, {.one_launch = random() % 2 == 0}), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range<uint64_t>(1, 13));

std::vector<Plan> golden_plans() {
  std::vector<Plan> plans;
  for (const auto& file :
       std::filesystem::directory_iterator(SK_SOURCE_DIR "/tests/golden/plans")) {
    std::ifstream in(file.path());
    Result<Plan> plan = parse(std::string(std::istreambuf_iterator<char>(in), {}));
    EXPECT_TRUE(plan.ok()) << file.path() << plan.status().message();
    plans.push_back(std::move(plan.value()));
  }
  return plans;
}

TEST(DeviceCode, PlansFromTheirTexts) {
  std::mt19937_64 random(3);
  const std::vector<Plan> plans = golden_plans();
  ASSERT_GE(plans.size(), 10u);
  for (const Plan& plan : plans) {
    SCOPED_TRACE(dump(plan).substr(0, 300));
    World world = random_world(plan, /*runs=*/3, random);
    ASSERT_EQ(devhost::run(plan, world, {.one_launch = false}), "");
  }
}

// Fractions, whose sums are rounded: in rank order, as the reference does it, to the last bit.
TEST(DeviceCode, ReductionsAreTheReferencesToTheLastBit) {
  std::mt19937_64 random(19);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const RedOp redop : {RedOp::kSum, RedOp::kProd, RedOp::kAvg, RedOp::kMax}) {
      const Plan plan = direct_allreduce(3, 250, dtype, redop);
      World world = random_world(plan, /*runs=*/1, random);
      for (OperandBytes& rank : world.inputs[0]) {
        for (size_t i = 0; i < rank[0].size() / dtype_bytes(dtype); ++i) {
          const double value = std::ldexp(double(random() % 8191) - 4095, int(random() % 12) - 15);
          std::byte* at = rank[0].data() + i * dtype_bytes(dtype);
          const auto put = [&](auto bits) { std::memcpy(at, &bits, sizeof bits); };
          if (dtype == DType::kF32) put(float(value));
          if (dtype == DType::kF64) put(value);
          if (dtype == DType::kBF16) put(f32_to_bf16(float(value)));
          if (dtype == DType::kF16) put(f32_to_f16(float(value)));
        }
      }
      World reference = world;
      ASSERT_TRUE(run_reference(plan, reference, 1).ok());
      devhost::DeviceWorld device(plan, devhost::kernel_for(plan), {});
      const Status status = device.run(world);
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t rank = 0; rank < 3; ++rank)
        ASSERT_EQ(world.outputs[0][rank][1], reference.outputs[0][rank][1]) << dtype_name(dtype);
    }
  }
}

// ---- more ranks than a task has waits at hand, or its warp lanes --------------------------------

class ManyRanks : public testing::TestWithParam<uint32_t> {};

TEST_P(ManyRanks, ComputeWhatTheOpSays) {
  const uint32_t ranks = GetParam();
  std::mt19937_64 random(ranks);
  std::vector<Plan> plans;
  for (const bool mapped : {true, false}) {
    const OpDesc op = op_desc({.kind = OpKind::kAllreduce,
                               .symmetric_in = mapped,
                               .symmetric_out = mapped,
                               .count = 401});
    plans.push_back(make_plan(op, {.world_size = ranks, .workers = 1}).value());
  }
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    plans.push_back(plan_gemm({.m = 33,
                               .n = 24,
                               .k = 16,
                               .dtype = dtype,
                               .out_dtype = dtype,
                               .ranks = ranks,
                               .workers = 1}));
  }
  for (const Plan& plan : plans) {
    SCOPED_TRACE(dump(plan).substr(0, 300));
    World world = random_world(plan, /*runs=*/2, random);
    ASSERT_EQ(devhost::run(plan, world, {}), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, ManyRanks, testing::Values(9u, 12u, 16u),
                         testing::PrintToStringParamName());

// What kernels look at beyond the first waits of a task, and beyond a warp's lanes of its places.
TEST(DeviceCode, TasksOfManyRanksHaveManyWaitsAndPlaces) {
  const Plan plan =
      plan_gemm({.m = 33, .n = 24, .k = 16, .ranks = cuda::kLaunchRanksMax, .workers = 1});
  uint32_t places = 0;
  for (const Task& task : plan.ranks[0].tasks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < task.region_count; ++i)
      count += plan.ranks[0].regions[task.first_region + i].buffer_count;
    places = std::max(places, count);
  }
  EXPECT_GT(places, 32u);
}

// The ninth wait of a task is the one that is met last, by far.
TEST(DeviceCode, AWaitBeyondThoseAtHand) {
  static_assert(cuda::kWaitsAheadMax == 8);
  const Plan plan = signalled_allreduce(10, 33, /*late=*/32);
  std::mt19937_64 random(5);
  World world = random_world(plan, /*runs=*/1, random);
  ASSERT_EQ(devhost::run(plan, world, {}), "");
}

// ---- what ends a run --------------------------------------------------------------------------

// Rank 1 never comes.
Plan without_rank_1(Plan plan) {
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 0;
  return plan;
}

TEST(DeviceCode, ALostPeerEndsInTime) {
  const Plan plan = without_rank_1(direct_allreduce(2, 33));
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  EXPECT_EQ(devhost::run(plan, world, {.timeout_ns = 50'000'000}),
            "rank 0 queue 0 task 1 ran out of time: rank 1, signal -1, wanted 1, saw 0");
}

TEST(DeviceCode, AnAbortEndsARun) {
  const Plan plan = without_rank_1(direct_allreduce(2, 33));
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  devhost::DeviceWorld device(plan, devhost::kernel_for(plan), {});
  std::thread other([&] {
    device.wait_for_entry();  // Before it, nothing would begin.
    device.abort();
  });
  EXPECT_EQ(device.run(world).message(),
            "rank 0 queue 0 task 1 was aborted: rank 1, signal -1, wanted 1, saw 0");
  other.join();
}

// Nothing begins, although no wait would be in vain: the callers' memory stays as it was.
TEST(DeviceCode, AnAbortBeforeTheLaunchLeavesAllAsItWas) {
  for (const uint32_t ranks : {1u, 2u}) {
    const Plan plan = direct_allreduce(ranks, 33);
    std::mt19937_64 random(1);
    World world = random_world(plan, 1, random);
    devhost::DeviceWorld device(plan, devhost::kernel_for(plan), {});
    device.abort();
    const std::string found = device.run(world).message();
    EXPECT_NE(found.find("was aborted: rank"), std::string::npos) << found;
    for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_TRUE(device.untouched(rank)) << rank;
  }
}

// A rank that has nothing to do ends its run only once its number was told, by which others hear
// that they may begin. Else it would be told one too high, and nobody would hear of this abort.
TEST(DeviceCode, AnAbortBehindARunOfAnIdleRank) {
  const Plan plan = idle_rank(33);
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  devhost::planted = {.late_look = true};
  devhost::DeviceWorld device(plan, devhost::kernel_for(plan), {});
  const Status first = device.run(world);
  device.abort();
  const std::string found = device.run(world).message();
  devhost::planted = {};
  ASSERT_TRUE(first.ok()) << first.message();
  EXPECT_NE(found.find("was aborted: rank"), std::string::npos) << found;
  EXPECT_TRUE(device.untouched(1));
}

TEST(DeviceCode, TimesOfTasks) {
  const Plan plan = direct_allreduce(2, 33);
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  devhost::DeviceWorld device(plan, devhost::kernel_for(plan), {.trace = true});
  ASSERT_TRUE(device.run(world).ok());
  for (size_t task = 0; task < plan.ranks[1].tasks.size(); ++task) {
    const cuda::TaskTimes& times = device.times(1)[task];
    EXPECT_GT(times.wait_ns, 0u);
    EXPECT_LE(times.wait_ns, times.start_ns);
    EXPECT_LE(times.start_ns, times.end_ns);
  }
}

}  // namespace
}  // namespace sk
