// Plans over lists of tensors and with values of runs, of adamw: valid, right in the reference's
// eyes, of a size that does not grow with what they are of, and refused once a planner would have
// gone wrong.
#include "lib/op/ops/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/op/judge.h"
#include "lib/op/values.h"
#include "lib/plan/free_rows.h"
#include "lib/plan/lists.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"

namespace sk {
namespace {

using testing::HasSubstr;

OpDesc op_of(int64_t n, DType dtype = DType::kF32) {
  const Schema& schema = ops::kAdamw;
  OpDesc op(schema);
  op.set(schema.field("n"), n);
  for (const uint32_t i : {0u, 1u, 4u}) op.set(OpDesc::type_field(i), int64_t(dtype));
  for (const uint32_t i : {2u, 3u, 5u, 6u})
    op.set(OpDesc::type_field(i), int64_t(accumulator(dtype)));
  op.set(schema.field("beta1"), bits_of(0.9));
  op.set(schema.field("beta2"), bits_of(0.99));
  op.set(schema.field("eps"), bits_of(1e-6));
  op.set(schema.field("weight_decay"), bits_of(0.1));
  return op;
}

Plan plan_of(int64_t n, uint32_t workers, DType dtype = DType::kF32) {
  return make_plan(op_of(n, dtype), {.world_size = 1, .workers = workers}).value();
}

TEST(AdamwPlans, AreValidOfAnyLengthAndComeBackFromTheirText) {
  EXPECT_EQ(mistake_in(op_of(5), 1), "");
  for (const int64_t n : {0, 1, 31, 33, 70'000, 1'000'001}) {
    for (const uint32_t workers : {1u, 2u, 5u}) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
        const Plan plan = plan_of(n, workers, dtype);
        const Status valid = validate(plan);
        ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << dump(plan);
        const Result<Plan> back = parse(dump(plan));
        ASSERT_TRUE(back.ok()) << back.status().message();
        EXPECT_TRUE(back.value() == plan);
      }
    }
  }
}

// Where tensors end is cut there, too.
TEST(AdamwPlans, OfExactlySoMuchAreValid) {
  const Plan plan = plan_of(100'000, 3);
  for (const uint64_t extent : {0, 1, 33, 40'000, 99'999, 100'000}) {
    const Plan exact = in_effect(plan, extent);
    EXPECT_EQ(exact.free, FreeDimension());
    const Status valid = validate(exact);
    EXPECT_TRUE(valid.ok()) << valid.message() << "\n" << dump(exact);
  }
}

TEST(AdamwPlans, DoNotGrowWithTheirElements) {
  const auto tasks = [](int64_t n) { return plan_of(n, 4).ranks[0].tasks.size(); };
  EXPECT_EQ(plan_of(1'000'000, 4).ranks[0].queues.size(), 4u);
  EXPECT_EQ(plan_of(1'000, 4).ranks[0].queues.size(), 1u);
  EXPECT_LE(tasks(int64_t(1) << 36), 4u * 65);
  EXPECT_EQ(tasks(int64_t(1) << 30), tasks(int64_t(1) << 36));
}

// Each worker has as many bytes as any other, but for a line.
TEST(AdamwPlans, DealElementsAlikeOverWorkers) {
  const Plan plan = plan_of(1'000'003, 3);
  const RankPlan& part = plan.ranks[0];
  for (const Queue& queue : part.queues) {
    int64_t elements = 0;
    for (uint32_t i = 0; i < queue.task_count; ++i)
      elements += part.params_of(part.tasks[queue.first_task + i])[kAdamwCount];
    EXPECT_NEAR(double(elements), 1'000'003 / 3.0, 64);
  }
}

TEST(AdamwPlans, ComputeAStepInTheReferencesEyes) {
  constexpr int64_t kCount = 40'000;
  constexpr double kLr = 0.25;
  constexpr int64_t kStep = 3;
  const Plan plan = plan_of(kCount, 2);
  const int64_t values[] = {bits_of(kLr), kStep};
  World world;
  world.inputs.assign(1, std::vector<OperandBytes>(1));
  std::mt19937 random(5);
  std::vector<float> in[4];
  for (size_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < kCount; ++j)
      in[i].push_back(float(random() % 2000) / 1000 - (i == 3 ? 0 : 1));
    const auto* bytes = reinterpret_cast<const std::byte*>(in[i].data());
    world.inputs[0][0][i].assign(bytes, bytes + kCount * sizeof(float));
  }
  const Status status = run_reference(with_run_values(plan, values), world, 7);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto out = [&](uint32_t operand, int64_t i) {
    float value;
    std::memcpy(&value, world.outputs[0][0][operand].data() + i * int64_t(sizeof value),
                sizeof value);
    return double(value);
  };
  for (int64_t i = 0; i < kCount; ++i) {
    const double p = in[0][i], g = in[1][i];
    const double m = in[2][i] + (g - in[2][i]) * (1 - 0.9), v = in[3][i] * 0.99 + g * g * 0.01;
    const double root = std::sqrt(v / (1 - std::pow(0.99, kStep))) + 1e-6;
    const double less = kLr * m / (1 - std::pow(0.9, kStep)) / root;
    ASSERT_NEAR(out(2, i), m, 1e-6) << i;
    ASSERT_NEAR(out(3, i), v, 1e-6) << i;
    ASSERT_NEAR(out(0, i), p * (1 - kLr * 0.1) - less, 1e-5 * (1 + std::fabs(less))) << i;
  }
}

struct Bug {
  const char* name;
  std::function<void(Plan& plan, Task& task)> plant;
  const char* rule;
};

TEST(AdamwPlans, WithAPlantedBugAreRefused) {
  const auto param = [](int index, auto&& change) {
    return [index, change](Plan& plan, Task& task) {
      change(plan.ranks[0].params[task.first_param + uint32_t(index)]);
    };
  };
  const auto region = [](uint32_t index, auto&& change) {
    return [index, change](Plan& plan, Task& task) {
      change(plan.ranks[0].regions[task.first_region + index]);
    };
  };
  const Bug bugs[] = {
      {"step for lr", param(kAdamwLr, [](int64_t& p) { p = kRunValue + 1; }),
       "the lr of adamw_step is run.1, it must be run.0"},
      {"lr for step", param(kAdamwStep, [](int64_t& p) { p = kRunValue; }),
       "the step of adamw_step is run.0, it must be run.1"},
      {"a value that there is not", param(kAdamwLr, [](int64_t& p) { p = kRunValue + 2; }),
       "the lr of"},
      {"a number for a value", param(kAdamwLr, [](int64_t& p) { p = bits_of(0.1); }),
       "lr is 4591870180066957722, allowed are"},
      {"another beta", param(kAdamwBeta1, [](int64_t& p) { p = bits_of(0.99); }),
       "the beta1 of adamw_m is 0.99, it must be 0.9"},
      {"m for v",
       [](Plan& plan, Task& task) {
         Region* regions = &plan.ranks[0].regions[task.first_region];
         std::swap(regions[2].buffer, regions[3].buffer);
       },
       "ms is not"},
      {"the next gradients", region(1, [](Region& r) { r.offset += 4; }), "grads is not"},
      {"results a place further", region(4, [](Region& r) { r.offset += 4; }), ""},
      {"cut at no tensor's end", [](Plan&, Task& task) { task.flags = 0; },
       "an adamw has region 0 in a list, and is not cut along it"},
      {"moments elsewhere", [](Plan& plan, Task&) { plan.op.set(OpDesc::aliased_field(5), 0); },
       "new_ms lies in ms and nowhere else"},
  };
  for (const Bug& bug : bugs) {
    Plan plan = plan_of(40'000, 2);
    ASSERT_TRUE(validate(plan).ok()) << validate(plan).message();
    bug.plant(plan, plan.ranks[0].tasks[1]);
    const Status status = validate(plan);
    EXPECT_FALSE(status.ok()) << bug.name;
    EXPECT_THAT(status.message(), HasSubstr(bug.rule)) << bug.name;
  }
}

}  // namespace
}  // namespace sk
