// The interpreter kernel and its tiles, as device code on the CPU: every operation of random plans
// comes out as the op says, in one launch of all ranks and in one launch each.
#include <gtest/gtest.h>

#include "cuda/exec/image.h"
#include "cuda/kernel/kernels.cu"
#include "lib/algo/planner.h"
#include "lib/plan/validate.h"
#include "tests/devhost/world.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

static_assert(sizeof(cuda::BlockShared<cuda::BoxOps<true>>) <= 227 << 10);

// The kernel that a launch of `plan` takes on sm_90.
devhost::Kernel kernel_for(const Plan& plan) {
  return [&plan](const cuda::LaunchArgs& args, bool boxes) {
    const DType dtype = plan.op.dtype;
    if (!cuda::needs_gemm(plan.ranks[0]))
      sk_run_moves(args);
    else if (!boxes)
      sk_run_gemms(args);
    else
      dtype == DType::kBF16 ? sk_run_boxes_bf16(args) : sk_run_boxes_f16(args);
  };
}

std::string run(const Plan& plan, World& world, const devhost::Options& options) {
  devhost::DeviceWorld device(plan, kernel_for(plan), options);
  const Status status = device.run(world);
  return status.ok() ? first_difference(plan, world) : status.message();
}

TEST(DeviceCode, HandMadePlans) {
  std::mt19937_64 random(7);
  for (const Plan& plan :
       {direct_allreduce(4, 33), direct_allreduce(3, 20, DType::kI32, RedOp::kProd),
        staged_allreduce(3, 17), put_pipeline(9, 3)}) {
    for (const bool one_launch : {true, false}) {
      World world = random_world(plan, /*runs=*/4, random);
      ASSERT_EQ(run(plan, world, {.one_launch = one_launch}), "");
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
    bool able = true;
    for (const RankPlan& part : plan->ranks) able &= cuda::check_part(plan.value(), part).ok();
    if (!able) continue;
    ++made;
    SCOPED_TRACE(describe(c));
    World world = random_world(plan.value(), /*runs=*/3, random);
    ASSERT_EQ(run(plan.value(), world, {.one_launch = random() % 2 == 0}), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace sk
