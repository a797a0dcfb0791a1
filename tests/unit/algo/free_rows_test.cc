// One plan for any number of rows: each number of them is a plan of its own, valid and right, and
// what a text gets wrong of it is refused.
#include "lib/plan/free_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lib/op/schema.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/rows_plan.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

// Of all numbers of rows where they are few, else of some.
std::set<uint64_t> extents_up_to(uint64_t most, std::mt19937_64& random) {
  std::set<uint64_t> extents{0, 1, most};
  for (uint64_t i = 0; i < 12; ++i)
    extents.insert(most <= 12 ? std::min(i, most) : random() % most);
  return extents;
}

TEST(FreeRows, EachNumberOfRowsIsAPlanOfItsOwn) {
  std::mt19937_64 random(std::random_device{}());
  for (int round = 0; round < 60; ++round) {
    RowsCase c = random_rows(random, 2'000);
    if (c.m == 0) continue;
    const Plan plan = plan_of(c, 1 + uint32_t(random() % 4));
    ASSERT_EQ(free_extent(plan), uint64_t(c.m));
    EXPECT_TRUE(validate(plan).ok()) << validate(plan).message();
    for (const uint64_t extent : extents_up_to(uint64_t(c.m), random)) {
      c.m = int64_t(extent);
      const Plan exact = in_effect(plan, extent);
      const Status valid = validate(exact);
      ASSERT_TRUE(valid.ok()) << extent << ": " << valid.message() << "\n" << dump(exact);
      ASSERT_EQ(exact.op[exact.op.schema().field("m")], c.m);
      if (c.m == 0) continue;  // The reference has no operands without bytes.
      const RowsData before = make_rows(c, random);
      RowsData after = before;
      ASSERT_EQ(run(exact, c, after, random()), "") << describe(c);
      ASSERT_EQ(wrong_rows(c, before, after), "") << describe(c);
    }
  }
}

// Blocks of a sum that a run cuts are its last ones, so that its order stays.
TEST(FreeRows, WhatIsLeftOfATaskIsItsBeginning) {
  RowsCase c;
  c.backward = true;
  c.m = 70;
  c.n = c.ldx = c.ldy = c.lddy = 5;
  const Plan exact = in_effect(plan_of(c, 1), 33);
  const std::string text = dump(exact);
  EXPECT_THAT(text, HasSubstr("m=33 n=5 row0=0 rows=33 block=16"));
  EXPECT_THAT(text, HasSubstr(":3x20"));  // Of its blocks.
  EXPECT_THAT(text, HasSubstr("sum_rows after_all dtype=f32 out_dtype=f32 m=3"));
  EXPECT_THAT(text, testing::Not(HasSubstr("free")));
}

TEST(FreeRows, WhatATextGetsWrongIsRefused) {
  struct Bug {
    const char *name, *is, *becomes, *sentence;
  };
  const Bug bugs[] = {
      {"no line", "free dimension=1 block=16\n", "", "has unknown flags"},
      {"another dimension", "dimension=1", "dimension=2", "has no such free dimension"},
      {"a dimension that there is not", "dimension=1", "dimension=9", "no such free dimension"},
      {"no dimension", "dimension=1", "dimension=0", "has unknown flags"},
      {"another block", "block=16\nb", "block=17\nb", "sums no blocks of 17"},
      {"no block", "block=16\nb", "block=0\nb", "of the plan's blocks"},
      {"rows as blocks", "rmsnorm_backward free_rows", "rmsnorm_backward free_blocks",
       "its plan over 5"},
      {"blocks as rows", "free_blocks", "free_rows", "goes over 5 rows, its plan over 70"},
      {"both", "free_blocks", "free_rows free_blocks", "a task is of rows, or of"},
      {"rows not cut", "rmsnorm_backward free_rows", "rmsnorm_backward", "with 0 of its free"},
      {"blocks not cut", "sum_rows after_all free_blocks", "sum_rows after_all", "with 0 of its"},
      {"a task that has none", "queue\n", "queue\n  nop free_rows\n", "has no rows to count"},
  };
  RowsCase c;
  c.backward = true;
  c.m = 70;
  c.n = c.ldx = c.ldy = c.lddy = 5;
  const Plan plan = plan_of(c, 1);
  ASSERT_TRUE(validate(plan).ok());
  for (const Bug& bug : bugs) {
    std::string text = dump(plan);
    const size_t at = text.find(bug.is);
    ASSERT_NE(at, std::string::npos) << bug.name << "\n" << text;
    text.replace(at, std::string(bug.is).size(), bug.becomes);
    const Result<Plan> changed = parse(text);
    ASSERT_TRUE(changed.ok()) << bug.name << ": " << changed.status().message();
    const Status status = validate(changed.value());
    EXPECT_EQ(status.code(), SK_ERR_INVALID_ARGUMENT) << bug.name;
    EXPECT_THAT(status.message(), HasSubstr(bug.sentence)) << bug.name;
  }
}

TEST(FreeRows, LittleRoomMakesFewPlans) {
  RowsCase c;
  c.n = 8;
  std::set<int64_t> made;
  for (c.m = 1; c.m < 3'000; ++c.m) {
    uint64_t extent = 0;
    const OpDesc roomy = with_room(op_of(c), &extent);
    const int64_t most = roomy[roomy.schema().field("m")];
    EXPECT_EQ(extent, uint64_t(c.m));
    EXPECT_GE(most, c.m);
    EXPECT_LE(most, c.m + c.m / 4);
    uint64_t again = 0;
    EXPECT_EQ(with_room(roomy, &again), roomy);
    made.insert(most);
  }
  EXPECT_LE(made.size(), 45u);  // Of calls that one worker does.
}

TEST(FreeRows, WorkersThatShareRowsHaveLessRoom) {
  RowsCase c;
  c.n = c.ldx = c.ldy = 1'024;
  for (c.m = 64; c.m < 3'000; ++c.m) {
    uint64_t extent = 0;
    const OpDesc roomy = with_room(op_of(c), &extent);
    const int64_t most = roomy[roomy.schema().field("m")];
    EXPECT_GE(most, c.m);
    EXPECT_LE(most, c.m + c.m / 16);
  }
}

TEST(FreeRows, LargeCallsAndOtherOperationsArePlannedAsTheyAre) {
  RowsCase c;
  c.m = 5'001;
  c.n = c.ldx = c.ldy = 1'024;
  uint64_t extent = 0;
  EXPECT_EQ(with_room(op_of(c), &extent), op_of(c));
  EXPECT_EQ(extent, UINT64_MAX);
  c.m = 0;
  EXPECT_EQ(with_room(op_of(c), &extent), op_of(c));
  const OpDesc barrier;
  EXPECT_EQ(with_room(barrier, &extent), barrier);
}

}  // namespace
}  // namespace sk
