// The validator: sound plans pass, and a plan that breaks one rule is refused under that rule.
#include "lib/plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/plan/builder.h"
#include "lib/plan/text.h"
#include "tests/support/plans.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

TEST(Validate, HandMadePlansPass) {
  for (uint32_t ranks = 1; ranks <= 5; ++ranks) {
    for (const int64_t count : {5, 17, 100}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
        const Status status = validate(direct_allreduce(ranks, count, dtype, RedOp::kMax));
        EXPECT_TRUE(status.ok()) << status.message();
      }
      const Status status = validate(staged_allreduce(ranks, count));
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  for (const int64_t chunks : {1, 3, 4, 5, 12, 50}) {
    for (uint32_t slots = 1; slots <= std::min<int64_t>(4, chunks); ++slots) {
      const Status status = validate(put_pipeline(chunks, slots));
      EXPECT_TRUE(status.ok()) << chunks << " chunks, " << slots << " slots: " << status.message();
    }
  }
}

}  // namespace
}  // namespace sk
