// Plans of rmsnorm and of its gradient: valid, right in the reference's eyes, and refused once a
// planner would have gone wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/op/judge.h"
#include "lib/op/ops/add_rmsnorm.h"
#include "lib/op/values.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/rows_plan.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

TEST(RowsPlans, AreRightInTheReferencesEyes) {
  std::mt19937_64 random(std::random_device{}());
  for (int round = 0; round < 150; ++round) {
    const RowsCase c = random_rows(random, 2'000);
    const Plan plan = plan_of(c, 1 + uint32_t(random() % 4));
    const Status valid = validate(plan);
    ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << dump(plan);
    if (c.m == 0) continue;  // The reference has no operands without bytes.
    const RowsData before = make_rows(c, random);
    RowsData after = before;
    ASSERT_EQ(run(plan, c, after, random()), "") << testing_support::describe(c);
    ASSERT_EQ(wrong_rows(c, before, after), "") << testing_support::describe(c);
  }
}

TEST(RowsPlans, ComeBackFromTheirText) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const Plan plan = plan_of(random_rows(random, 2'000), 2);
    const std::string text = dump(plan);
    const Result<Plan> back = parse(text);
    ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << text;
    EXPECT_TRUE(back.value() == plan) << text;
    EXPECT_EQ(dump(back.value()), text);
  }
}

RowsCase large(bool backward) {
  RowsCase c;
  c.backward = backward;
  c.m = 400;
  c.n = 900;
  c.ldx = c.ldy = c.lddy = 1000;
  return c;
}

TEST(RowsPlans, UseAllWorkersOfLargeCallsAndOneOfSmallOnes) {
  for (const bool backward : {false, true}) {
    RowsCase c = large(backward);
    EXPECT_EQ(plan_of(c, 3).ranks[0].queues.size(), 3u);
    c.m = 4;
    EXPECT_EQ(plan_of(c, 3).ranks[0].queues.size(), 1u);
  }
}

struct Bug {
  const char* name;
  bool backward;
  TaskOp tile;
  std::function<void(RankPlan& part, Task& task)> plant;
  const char* rule;
};

TEST(RowsPlans, WithAPlantedBugAreRefused) {
  const auto param = [](int index, auto&& change) {
    return [index, change](RankPlan& part, Task& task) {
      change(part.params[task.first_param + uint32_t(index)]);
    };
  };
  const auto region = [](uint32_t index, auto&& change) {
    return [index, change](RankPlan& part, Task& task) {
      change(part.regions[task.first_region + index]);
    };
  };
  const auto next_row = [](Region& r) { r.offset += 4000; };
  const auto swapped = [](RankPlan& part, Task& task) {
    std::swap(part.regions[task.first_region], part.regions[task.first_region + 1]);
  };
  const auto lost = [](uint32_t Task::*first, uint16_t Task::*count) {
    return [first, count](RankPlan&, Task& task) {
      task.*first += 1;
      task.*count -= 1;
    };
  };
  const TaskOp forward = TaskOp::kRmsnorm, backward = TaskOp::kRmsnormBackward,
               join = TaskOp::kSumRows;
  const Bug bugs[] = {
      {"another eps", false, forward, param(kRowsEps, [](int64_t& p) { p = bits_of(1e-6); }),
       "the eps of rmsnorm is"},
      {"the next rows", false, forward, region(0, next_row), "x is not rows"},
      {"rows from elsewhere", false, forward, param(kRowsRow0, [](int64_t& p) { p += 1; }),
       "x is not rows"},
      {"no weight", false, forward, param(kRowsGiven, [](int64_t& p) { p = kGivenSecond; }),
       "regions"},
      {"rstd forgotten", false, forward, param(kRowsGiven, [](int64_t& p) { p = kGivenWeight; }),
       "regions"},
      {"a shorter row", false, forward, param(kRowsN, [](int64_t& p) { p -= 1; }),
       "the operation over 900"},
      {"fewer rows in all", false, forward, param(kRowsM, [](int64_t& p) { p -= 1; }),
       "the operation over 400"},
      {"the last row left out", false, forward,
       [](RankPlan& part, Task& task) {
         part.params[task.first_param + kRowsRows] -= 1;
         part.regions[task.first_region].rows -= 1;
         part.regions[task.first_region + 2].rows -= 1;
         part.regions[task.first_region + 3].row_bytes -= 4;
         part.regions[task.first_region + 3].pitch -= 4;
       },
       "it must be"},
      {"weights from the second on", false, forward,
       region(1, [](Region& r) { r.offset += 4, r.row_bytes -= 4, r.pitch -= 4; }),
       "weight is not"},
      {"results one row further", false, forward, region(2, next_row), ""},
      {"rstd one row further", false, forward, region(3, [](Region& r) { r.offset += 4; }), ""},
      {"dy for x", true, backward, swapped, "is not rows"},
      {"rstd of other rows", true, backward, region(2, [](Region& r) { r.offset += 4; }),
       "rstd is not rows"},
      {"larger blocks", true, backward, param(kRowsBlock, [](int64_t& p) { p *= 2; }),
       "it sums blocks of 32, the operation of 16"},
      {"blocks that are cut", true, backward,
       [](RankPlan& part, Task& task) {
         part.params[task.first_param + kRowsRows] -= 1;
         for (const uint32_t i : {0, 1, 4}) part.regions[task.first_region + i].rows -= 1;
         part.regions[task.first_region + 2].row_bytes -= 4;
         part.regions[task.first_region + 2].pitch -= 4;
       },
       "blocks of 16 are not to be cut"},
      {"sums of another block", true, backward, region(5, [](Region& r) { r.offset += 3600; }), ""},
      {"other columns of the sums", true, join, param(kSumRowsCol0, [](int64_t& p) { p += 16; }),
       "in is not rows 0 to 24 and columns 16 to"},
      {"not all blocks", true, join,
       [](RankPlan& part, Task& task) {
         part.params[task.first_param + kSumRowsM] -= 1;
         part.regions[task.first_region].rows -= 1;
       },
       "it goes over 24 i, the operation over 25"},
      {"x for the sums", true, join, region(0, [](Region& r) { r.buffer = 1; }),
       "in is not rows 0 to 24 and columns 0 to"},
      {"one queue not awaited", true, join, lost(&Task::first_wait, &Task::wait_count),
       "nothing says that"},
  };
  for (const Bug& bug : bugs) {
    Plan plan = plan_of(large(bug.backward), 2);
    ASSERT_TRUE(validate(plan).ok()) << bug.name;
    RankPlan& part = plan.ranks[0];
    const auto task = std::find_if(part.tasks.begin(), part.tasks.end(),
                                   [&](const Task& each) { return each.op == bug.tile; });
    ASSERT_NE(task, part.tasks.end()) << bug.name;
    bug.plant(part, *task);
    const Status status = validate(plan);
    EXPECT_FALSE(status.ok()) << bug.name;
    EXPECT_THAT(status.message(), HasSubstr(bug.rule)) << bug.name;
  }
}

std::string with(std::string text, std::string_view instead, std::string_view of) {
  const size_t at = text.find(of);
  EXPECT_NE(at, std::string::npos) << of;
  return text.replace(at, of.size(), instead);
}

// A weight is of all rows: where it lies no row's result may, though a tile may work in place.
TEST(RowsPlans, NothingIsLeftWhereTheWeightIsRead) {
  const Schema& schema = ops::kAddRmsnorm;
  OpDesc op(schema);
  op.set(schema.field("m"), 1);
  op.set(schema.field("n"), 8);
  op.set(schema.field("eps"), bits_of(0.5));
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (const Field stride = schema.stride_field(i)) op.set(stride, 8);
  }
  op.set(OpDesc::absent_field(uint8_t(schema.operand("rstd") - schema.operands.data())), 1);
  const Result<Plan> plan = make_plan(op, {.world_size = 1});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  // The weight goes to the workspace first, and the total from there to its place: of all rows.
  std::string text = with(dump(plan.value()), "", "free dimension=1 block=0\n");
  text = with(text,
              "buffer 5 kind=workspace access=local operand=0 generations=1 owner=0 "
              "bytes=64 offset=0\nrank 0 peers",
              "rank 0 peers");
  text = with(text, "  copy hint=default read=b4@0:32 write=b5@0:32\n  add_rmsnorm after_all dtype",
              "  add_rmsnorm free_rows dtype");
  text = with(text,
              "read=b5@0:32 write=b2@0:32 write=b5@32:32\n"
              "  copy after_all hint=default read=b5@32:32 write=b3@0:32",
              "read=b4@0:32 write=b2@0:32 write=b3@0:32");
  Result<Plan> apart = parse(text);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(validate(apart.value()).message(), "");
  text = with(text, "write=b5@0:32\n  copy after_all hint=default read=b5@0:32",
              "write=b5@32:32\n  copy after_all hint=default read=b5@32:32");
  Result<Plan> over = parse(text);
  ASSERT_TRUE(over.ok()) << over.status().message();
  EXPECT_THAT(validate(over.value()).message(), HasSubstr("its regions 2 and 4 overlap"));
}

// One queue needs no signals, but the order that its tasks start in is not that they end in.
TEST(RowsPlans, BlocksAreJoinedBehindAll) {
  RowsCase c = large(true);
  Plan plan = plan_of(c, 1);
  EXPECT_TRUE(validate(plan).ok()) << validate(plan).message();
  for (Task& task : plan.ranks[0].tasks) task.flags = 0;
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule c"));
}

// Where blocks are cut depends on nothing: not on workers, nor on how many rows a task has.
TEST(RowsPlans, HaveOneBlockSizeForAllWorkers) {
  for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
    const Plan plan = plan_of(large(true), workers);
    ASSERT_TRUE(validate(plan).ok()) << validate(plan).message();
    for (const Task& task : plan.ranks[0].tasks) {
      if (task.op != TaskOp::kRmsnormBackward) continue;
      const std::span<const int64_t> params = plan.ranks[0].params_of(task);
      EXPECT_EQ(params[kRowsBlock], ops::rows::kBlockRows);
      EXPECT_EQ(params[kRowsRow0] % ops::rows::kBlockRows, 0);
    }
  }
}

TEST(RowsPlans, OfSeveralRanksThereAreNone) {
  const OpDesc op = op_of(large(false));
  Target target = target_of(1);
  target.world_size = 2;
  EXPECT_EQ(make_plan(op, target).status().code(), SK_ERR_INTERNAL);
}

}  // namespace
}  // namespace sk
