// The text form of plans: what goes out comes back, and any other bytes get a sentence.
#include "lib/plan/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/op_words.h"
#include "tests/support/plans.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

std::vector<Plan> plans() {
  return {direct_allreduce(1, 7), direct_allreduce(4, 1001, DType::kBF16, RedOp::kMax),
          staged_allreduce(3, 100), put_pipeline(11, 4)};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanText, WhatIsDumpedParsesToTheSamePlanAndText) {
  for (const Plan& plan : plans()) {
    const std::string text = dump(plan);
    Result<Plan> back = parse(text);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_TRUE(back.value() == plan);
    EXPECT_EQ(dump(back.value()), text);
  }
}

// Values that no planner makes, so that even a broken plan can be looked at.
TEST(PlanText, OddValuesSurviveTheRoundTrip) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    Plan plan = put_pipeline(3, 2);
    RankPlan& part = plan.ranks[random() % 2];
    part.tasks[random() % part.tasks.size()].flags = uint8_t(random());
    part.tasks[random() % part.tasks.size()].op = TaskOp(random() % 12);
    Region& region = part.regions[random() % part.regions.size()];
    region = {random(),
              random(),
              random(),
              uint32_t(random()),
              uint32_t(random()) >> random() % 32,
              uint32_t(random()) >> random() % 32,
              uint32_t(random() % 4)};
    part.posts[0] = {uint32_t(random()), uint32_t(random()), uint32_t(random())};
    plan.op = testing_support::op_desc(
        {.kind = OpKind(SK_OP_ALLREDUCE + random() % 5), .count = int64_t(random())});
    plan.target.chunk_bytes = random();
    plan.target.band_rows = random() % 2 ? uint32_t(random()) >> random() % 32 : 0;
    plan.target.packed_pitch = random() % 2 ? random() >> random() % 64 : 0;
    plan.target.raw_b = random() % 2;
    if (random() % 2) plan.target.edge_signals_max = uint32_t(random()) >> random() % 32;
    if (random() % 2) plan.target.queue_bytes_min = random() >> random() % 64;
    if (random() % 2) plan.target.turn_bytes = random() >> random() % 64;
    for (uint64_t hosts = random() % 2 * (random() % 4); hosts > 0; --hosts)
      plan.target.host_of.push_back(uint32_t(random()) >> random() % 32);
    plan.target.one_level = !plan.target.host_of.empty() && random() % 2;
    plan.buffers[0].access = BufferAccess(random() % 5);
    const Result<Plan> back = parse(dump(plan));
    ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << dump(plan);
    EXPECT_TRUE(back.value() == plan) << dump(plan);
  }
}

TEST(PlanText, EqualityIgnoresHowSideTablesAreLaidOut) {
  const Plan plan = direct_allreduce(2, 10);
  Plan moved = plan;
  RankPlan& part = moved.ranks[1];
  part.waits.insert(part.waits.begin(), Wait{9, 9, 9});
  for (Task& task : part.tasks) ++task.first_wait;
  EXPECT_TRUE(moved == plan);
  part.waits[1].target = 5;
  EXPECT_FALSE(moved == plan);
}

TEST(PlanText, ErrorsNameLineAndColumn) {
  const std::string text = dump(direct_allreduce(2, 10));
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1, column 1: expected \"sk-plan 3\""},
      {"sk-plan 2\n", "line 1, column 1: expected \"sk-plan 3\""},
      {replaced(text, "dtype=f32", "dtype=f33"), "line 2, column 44: expected in.dtype, a number"},
      {replaced(text, "kind=allreduce", "kind=allredace"),
       "line 2, column 4: expected kind= and one of barrier, allreduce, allgather"},
      {replaced(text, "count=10 ", "count=99999999999999999999 "), "count is too large"},
      {replaced(text, "mapped=1", "mapped=2"), "line 3, column 28: mapped is 0 or 1"},
      {replaced(text, "put_bytes_max=18446744073709551615", "put_bytes_max=1 bands=1"),
       "expected band_rows="},
      {replaced(text, "put_bytes_max=18446744073709551615",
                "put_bytes_max=1 band_rows=0 packed_bytes=1"),
       "expected packed_pitch="},
      {replaced(text, "edge_signals_max=4294967295", "edge_signals_max=1 turns=1"),
       "expected queue_bytes_min="},
      {replaced(text, "edge_signals_max=4294967295", "edge_signals_max=1 queue_bytes_min=9"),
       "expected turn_bytes="},
      {replaced(text, "edge_signals_max=4294967295", "edge_signals_max=1 host_of=0,,1"),
       "expected host_of, a number"},
      {replaced(text, "edge_signals_max=4294967295", "edge_signals_max=1 host_of=0,1 turn_bytes=2"),
       "unexpected text at the end of the line"},
      {replaced(text, "buffer 1 ", "buffer 2 "), "the buffer's number is 1 here, not 2"},
      {replaced(text, "  reduce dtype", "  reduice dtype"), "expected a task"},
      {replaced(text, "redop=sum hint", "hint"), "expected a parameter"},
      {replaced(text, "post=r1.s0+1", "post=r1.s0"), "expected +"},
      {replaced(text, "b0..b1@", "b1..b0@"), "the last buffer, 0, is not behind the first, 1"},
      {replaced(text, "  enter\n", "  enter wait=r0.s0>=1 read=b0@0:4\n"),
       "expected wait= or post="},
      {replaced(text, "  enter\n", "  enter now\n"), "expected a parameter"},
      {replaced(text, "signal r1.s0", "signal 0"), "expected r, the producing rank"},
      {text + "buffer 4 kind=input\n", "buffers come before ranks"},
  };
  for (const auto& [broken, sentence] : cases) {
    Result<Plan> plan = parse(broken);
    ASSERT_FALSE(plan.ok()) << sentence;
    EXPECT_EQ(plan.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(plan.status().message(), HasSubstr(sentence));
  }
}

TEST(PlanText, AnyBytesGiveAPlanOrASentence) {
  const std::string base = dump(put_pipeline(5, 2));
  std::mt19937_64 random(2024);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = base;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = char(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, base.substr(random() % base.size(), random() % 40));
          break;
        default:
          text.insert(at, 1, "0123456789=.,@:x/+->s"[random() % 21]);
      }
      if (text.empty()) text = "#";
    }
    Result<Plan> plan = parse(text);
    if (!plan.ok()) {
      ++refused;
      EXPECT_THAT(plan.status().message(), HasSubstr("line "));
      continue;
    }
    const Result<Plan> again = parse(dump(plan.value()));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(again.value() == plan.value());
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace sk
