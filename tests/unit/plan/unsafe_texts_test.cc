// Plans from texts that no planner writes, each of which once passed and was not safe to run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string judged(const std::string& text) {
  const Result<Plan> plan = parse(text);
  return plan.ok() ? validate(plan.value()).message() : plan.status().message();
}

// The head of the text of a plan: all before its parts.
std::string head_of(const OpDesc& op, const Target& target) {
  const std::string text = dump(make_plan(op, target).value());
  return text.substr(0, text.find("rank 0"));
}

// Run, the first queue's await is what looks at the peers' entries, and the others' wait for it.
TEST(UnsafeTexts, AQueueThatAwaitsCannotHelpTheFirstToItsAwait) {
  const Target target{.world_size = 2, .workers = 2};
  std::string text = head_of(OpDesc(*schema_of(OpKind::kBarrier)), target);
  for (const std::string rank : {"0", "1"}) {
    const std::string peer = rank == "0" ? "1" : "0";
    text += "rank " + rank + " peers=" + peer + "\nsignal r" + rank +
            ".s0 posts=1\nqueue\n  enter\n  nop wait=r" + rank +
            ".s0>=1\n  await\nqueue\n  await\n  nop post=r" + rank + ".s0+1\n";
  }
  EXPECT_THAT(judged(text), HasSubstr("rule a: rank 0 queue 0 task 1 (nop) waits for ever"));
}

// In place a call passes the whole operand alone, so that only of it can be known where it lies.
TEST(UnsafeTexts, APartOfAnotherOperandIsNotSymmetricByItself) {
  const OpDesc op = op_desc(
      {.kind = OpKind::kReduceScatter, .symmetric_in = true, .in_place = true, .count = 1000});
  const std::string good = dump(make_plan(op, {.world_size = 2}).value());
  ASSERT_EQ(judged(good), "");
  const std::string bad = replaced(replaced(good, "in.symmetric=1", "in.symmetric=0"),
                                   "out.symmetric=0", "out.symmetric=1");
  EXPECT_THAT(judged(bad), HasSubstr("rule f: buffer 0 is mapped, but that operand is not"));
  Plan plan = make_plan(op, {.world_size = 2}).value();
  for (Buffer& buffer : plan.buffers) buffer.operand = 1;
  EXPECT_THAT(validate(plan).message(), HasSubstr("lies in in and is not passed by itself"));
}

TEST(UnsafeTexts, AUsersTileIsInNone) {
  const OpDesc op = op_desc({.kind = OpKind::kAllgather, .count = 1000});
  const std::string good = dump(make_plan(op, {.world_size = 1}).value());
  EXPECT_THAT(judged(replaced(good, "  copy", "  op16384")),
              HasSubstr("a user's tile is in no plan's text"));
}

TEST(UnsafeTexts, ThirdRanksHaveNoPartInACallOfTwo) {
  const OpDesc op = op_desc({.kind = OpKind::kSendRecv, .root = 0, .peer = 1, .count = 16});
  Plan plan = make_plan(op, {.world_size = 3, .mapped = false}).value();
  ASSERT_EQ(validate(plan).message(), "");
  plan.ranks[0].peers = {1, 2};
  plan.ranks[2].peers = {0};
  EXPECT_THAT(validate(plan).message(), HasSubstr("rank 0 has peer 2"));
}

TEST(UnsafeTexts, ThatNameBuffersWithoutEndAreRefusedAtOnce) {
  Plan plan =
      make_plan(op_desc({.kind = OpKind::kAllreduce, .count = 64}), {.world_size = 1}).value();
  RankPlan& part = plan.ranks[0];
  while (plan.buffers.size() < 20'000) plan.buffers.push_back({});
  Task task = part.tasks.back();
  task.op = TaskOp::kReduce;
  const auto regions = part.regions_of(part.tasks[0]);
  ASSERT_EQ(regions.size(), 2u);
  std::vector<Region> many(regions.begin(), regions.end());
  many[0].buffer_count = uint32_t(plan.buffers.size() - many[0].buffer);
  many[0].row_bytes = many[0].pitch = 0;
  task.region_count = 2;
  const int64_t params[] = {int64_t(DType::kF32), int64_t(DType::kF32), int64_t(RedOp::kSum), 0};
  task.param_count = 4;
  task.first_param = uint32_t(part.params.size());
  part.params.insert(part.params.end(), std::begin(params), std::end(params));
  for (int i = 0; i < 20'000; ++i) {
    task.first_region = uint32_t(part.regions.size());
    part.regions.insert(part.regions.end(), many.begin(), many.end());
    part.tasks.push_back(task);
    ++part.queues[0].task_count;
  }
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule h: regions in"));
}

}  // namespace
}  // namespace sk
