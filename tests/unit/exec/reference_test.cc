// The reference executor's own checks: what it must notice in plans that the validator would
// refuse.
#include "lib/exec/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

// The plan's text with the first `from` replaced.
Plan edited(const Plan& base, const std::string& from, const std::string& to) {
  std::string text = dump(base);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  Result<Plan> plan = parse(text.replace(at, from.size(), to));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.value();
}

Status run(const Plan& plan, uint64_t seed, uint32_t runs = 3) {
  std::mt19937_64 random(seed);
  World world = random_world(plan, runs, random);
  return run_reference(plan, world, seed);
}

TEST(Reference, HandMadePlansComputeTheirOpInAnyOrder) {
  std::mt19937_64 random(11);
  for (const Plan& plan :
       {direct_allreduce(4, 33), direct_allreduce(3, 20, DType::kI32, RedOp::kProd),
        staged_allreduce(3, 17), put_pipeline(9, 3), counted_pieces(9)}) {
    for (int order = 0; order < 20; ++order) {
      World world = random_world(plan, /*runs=*/4, random);
      const Status status = run_reference(plan, world, random());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(first_difference(plan, world), "");
    }
  }
}

TEST(Reference, NamesWhoWaitsForEver) {
  const Plan plan = edited(direct_allreduce(2, 10), "post=r1.s0+1", "");
  const Status status = run(plan, 3);
  EXPECT_EQ(status.code(), SK_ERR_TIMEOUT);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1 queue 0 task 3 (nop) for signal 0 from rank 0 >= 1"));
}

TEST(Reference, NoticesBytesWrittenTwiceOrNever) {
  const std::string copy =
      "  copy hint=default read=b2@0:64 write=b1@0:64 wait=r0.s0>=1 post=r0.s0+1\n";
  const Plan twice =
      edited(put_pipeline(6, 2), copy, copy.substr(0, copy.find(" wait")) + "\n" + copy);
  EXPECT_THAT(run(twice, 1).message(), HasSubstr("byte 0 of buffer 1 is written twice"));
  const Plan never =
      edited(put_pipeline(6, 2), "read=b2@0:64 write=b1@0:64", "read=b2@0:60 write=b1@0:60");
  EXPECT_THAT(run(never, 1).message(), HasSubstr("380 bytes of output written, not 384"));
}

// Method: the entry no longer waits for the staged copy, or a piece is counted whatever became of
// those before. Most orders hide it; some must show it.
TEST(Reference, SomeOrderShowsARace) {
  for (const Plan& racy : {edited(staged_allreduce(3, 10), "enter after_all", "enter"),
                           edited(counted_pieces(4), "posts_in_order hint=default read=b0@64",
                                  "hint=default read=b0@64")}) {
    ASSERT_FALSE(validate(racy).ok());
    std::mt19937_64 random(5);
    int wrong = 0;
    for (int order = 0; order < 60; ++order) {
      World world = random_world(racy, /*runs=*/3, random);
      const Status status = run_reference(racy, world, random());
      if (!status.ok() || !first_difference(racy, world).empty()) ++wrong;
    }
    EXPECT_GT(wrong, 0);
  }
}

}  // namespace
}  // namespace sk
