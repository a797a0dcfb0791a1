#include "lib/exec/cpu/tile/hand_over.h"

#include <algorithm>

#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;
using Way = HandOverChoice::Way;

constexpr uint64_t kLines = 128;
constexpr uint64_t kNear = 10 * kLines, kFar = 90 * kLines;  // Ticks.

// The next way that is not an unmeasured ordinary copy, and how many of those came first.
Way next_decision(HandOverChoice& choice, uint32_t* ordinary) {
  for (*ordinary = 0; *ordinary < 1000; ++*ordinary) {
    const Way way = choice.next();
    if (way != Way::kOrdinary) return way;
  }
  return Way::kOrdinary;
}

TEST(HandOverChoice, StaysWithOrdinaryStoresWhileTheyAreFast) {
  HandOverChoice choice;
  uint32_t ordinary = 0;
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(next_decision(choice, &ordinary), Way::kMeasured) << round;
    EXPECT_LT(ordinary, HandOverChoice::kMeasureEvery);
    choice.learn(kNear, kLines);
  }
}

TEST(HandOverChoice, OneSlowCopyIsMeasuredAgainAtOnce) {
  HandOverChoice choice;
  uint32_t ordinary = 0;
  ASSERT_EQ(next_decision(choice, &ordinary), Way::kMeasured);
  choice.learn(kFar, kLines);
  EXPECT_EQ(choice.next(), Way::kMeasured);
  choice.learn(kNear, kLines);
  EXPECT_EQ(choice.next(), Way::kOrdinary);
}

TEST(HandOverChoice, GoesPastTheCachesForAWhileAndTriesAgain) {
  HandOverChoice choice;
  uint32_t ordinary = 0;
  for (uint32_t slow = 0; slow < HandOverChoice::kSlowInARow; ++slow) {
    ASSERT_EQ(next_decision(choice, &ordinary), Way::kMeasured);
    choice.learn(kFar, kLines);
  }
  uint32_t past = 0;
  while (choice.next() == Way::kPastCaches) ASSERT_LT(++past, 1000u);
  EXPECT_GE(past, HandOverChoice::kPastCaches / 2);
  ASSERT_EQ(next_decision(choice, &ordinary), Way::kMeasured);  // The host may have moved us.
  choice.learn(kNear, kLines);
  EXPECT_EQ(choice.next(), Way::kOrdinary);
}

TEST(CopyHandedOver, HoldsTheSourceAndNothingElseChanges) {
  for (int round = 0; round < 600; ++round) {
    Random random{uint64_t(round)};
    const size_t bytes = size_t(random.between(0, random.coin() ? 300 : 40000));
    Guarded source(bytes, size_t(random.between(0, 63)));
    for (size_t i = 0; i < bytes; ++i) source.data()[i] = uint8_t(random.between(0, 255));
    Guarded target(bytes, size_t(random.between(0, 63)));
    copy_handed_over(target.data(), source.data(), bytes);
    ASSERT_TRUE(std::equal(source.data(), source.data() + bytes, target.data()))
        << bytes << " " << replay_line();
    ASSERT_TRUE(target.guards_intact() && source.guards_intact()) << replay_line();
  }
}

}  // namespace
}  // namespace sk::cpu
