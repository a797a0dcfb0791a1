// Output that comes after its cell: tagged by line, paced, bounded.
#include "lib/control/late.h"

#include <gtest/gtest.h>

#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using testing_support::out;
using testing_support::shown;

constexpr int64_t kMs = 1'000'000;

TEST(LateOutput, LinesCarryTheirRank) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  EXPECT_EQ(late.deadline_ns(), INT64_MAX);
  late.add(3, 0, out("a\nb"), world, {}, 0);
  late.add(3, 1, out("c\n"), world, {}, 0);
  late.add(3, 0, out("d\n"), world, {}, 0);
  EXPECT_TRUE(late.due(0).empty());
  const auto events = late.due(late.deadline_ns());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "[0] a\n[0] b\n[1] c\n[0] d\n");
  EXPECT_EQ(events[0].cell, 3u);
  EXPECT_EQ(events[0].ranks, "0,1");
}

TEST(LateOutput, OneRankAloneIsPlainAndDisplaysCome) {
  LateOutput late;
  late.add(3, 0, out("a"), {0}, {}, 0);
  late.add(3, 0, shown(SK_DISPLAY_DATA, "d"), {0}, {}, 0);
  const auto events = late.due(late.deadline_ns());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "a");
  EXPECT_EQ(events[1].mimes[0].data, "d");
}

TEST(LateOutput, AFloodIsThinnedAndCounted) {
  LateOutput late;
  size_t messages = 0, bytes = 0;
  for (int64_t now = 0; now < 3000 * kMs; now += kMs) {
    late.add(1, 0, out(std::string(5000, 'x') + "\n"), {0}, {}, now);
    for (const Event& event : late.due(now)) {
      ++messages;
      bytes += event.text.size();
    }
  }
  EXPECT_GE(messages, 10u);
  EXPECT_LE(messages, 62u);
  EXPECT_LE(bytes, 1'700'000u);
  EXPECT_NE(late.due(late.deadline_ns())[0].text.find("lines elided"), std::string::npos);
}

}  // namespace
}  // namespace sk::control
