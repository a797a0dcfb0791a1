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
  EXPECT_EQ(events[0].text, "[0] a\n[0] bd\n[1] c\n");
  EXPECT_EQ(events[0].cell, 3u);
  EXPECT_EQ(events[0].ranks, "0,1");
}

std::string text_of(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events) text += event.text;
  return text;
}

TEST(LateOutput, WhatGoesOutTogetherIsInOrderOfRanks) {
  LateOutput late;
  const RankSet world = all_ranks(11);
  for (uint32_t rank : {10, 2, 7}) late.add(3, rank, out("hello\n"), world, {}, 0);
  EXPECT_EQ(text_of(late.due(late.deadline_ns())), "[ 2] hello\n[ 7] hello\n[10] hello\n");
}

// A print writes the parts of its line one by one, on every rank at the same time.
TEST(LateOutput, PartsOfALineStayTogether) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  for (const char* part : {"from", " ", "a", " ", "thread", "\n"})
    for (uint32_t rank : world) late.add(3, rank, out(part), world, {}, 0);
  EXPECT_EQ(text_of(late.due(late.deadline_ns())), "[0] from a thread\n[1] from a thread\n");
  EXPECT_EQ(late.deadline_ns(), INT64_MAX);
}

TEST(LateOutput, ALineThatDoesNotEndIsShownInTime) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  late.add(3, 0, out("working …"), world, {}, 0);
  EXPECT_TRUE(late.due(50 * kMs).empty());
  EXPECT_EQ(text_of(late.due(100 * kMs)), "[0] working …");
  EXPECT_EQ(late.deadline_ns(), INT64_MAX);
  late.add(3, 1, out("here\n"), world, {}, 110 * kMs);
  late.add(3, 0, out(" still\n"), world, {}, 120 * kMs);  // The line goes on before any other.
  late.add(3, 0, out("done\n\n"), world, {}, 130 * kMs);
  EXPECT_EQ(text_of(late.due(late.deadline_ns())), " still\n[0] done\n[0] \n[1] here\n");
  late.add(3, 0, out("again …"), world, {}, 500 * kMs);
  EXPECT_EQ(text_of(late.due(600 * kMs)), "[0] again …");
  late.add(3, 1, out("here\n"), world, {}, 700 * kMs);
  EXPECT_EQ(text_of(late.due(800 * kMs)), "\n[1] here\n");
  late.add(3, 0, out("\n"), world, {}, 900 * kMs);  // Of the line that the other one has ended.
  late.add(3, 0, out("done\n"), world, {}, 900 * kMs);
  EXPECT_EQ(text_of(late.due(1000 * kMs)), "[0] done\n");
}

TEST(LateOutput, BytesOfACharacterWaitForTheRest) {
  LateOutput late;
  late.add(3, 0, out("a\xe2\x80"), {0}, {}, 0);
  EXPECT_EQ(text_of(late.flush()), "a");
  EXPECT_EQ(late.deadline_ns(), INT64_MAX);
  late.add(3, 0, out("\xa6\n"), {0}, {}, 500 * kMs);
  EXPECT_EQ(text_of(late.due(late.deadline_ns())), "…\n");
}

TEST(LateOutput, ALineWithoutEndIsBounded) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  late.add(3, 0, out(std::string(5000, 'x')), world, {}, 0);
  EXPECT_EQ(text_of(late.due(10 * kMs)), "[0] " + std::string(5000, 'x'));
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
