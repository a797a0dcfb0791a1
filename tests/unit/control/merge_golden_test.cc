// The merge engine on small cases whose outcome a person can judge.
#include <gtest/gtest.h>

#include "tests/unit/control/merge_testing.h"

namespace sk::control {
namespace {

using namespace testing_support;

TEST(MergeGolden, EqualLinesBecomeOne) {
  EXPECT_EQ(merged(2, {{0, out("a\nb\n")}, {1, out("a\n")}, {1, out("b\n")}}), "out<a\nb\n>");
}

TEST(MergeGolden, DifferentLinesStandTogetherWithTheirRanks) {
  EXPECT_EQ(merged(3, {{0, out("same\nI am 0\nend\n")},
                       {1, out("same\nI am 1\nend\n")},
                       {2, out("same\nI am 1\nend\n")}}),
            "out<      same\n[  0] I am 0\n[1,2] I am 1\n      end\n>");
}

TEST(MergeGolden, NumbersAndPathsAreNeverMadeEqual) {
  EXPECT_EQ(merged(2, {{0, out("loss 0.1\n")}, {1, out("loss 0.2\n")}}),
            "out<[0] loss 0.1\n[1] loss 0.2\n>");
}

TEST(MergeGolden, ALineOfOneRankDoesNotPushTheOthersApart) {
  EXPECT_EQ(merged(2, {{0, out("header\nx\ny\n")}, {1, out("x\ny\n")}}),
            "out<[0] header\n    x\n    y\n>");
  EXPECT_EQ(merged(2, {{0, out("x\ny\n")}, {1, out("x\nextra\ny\n")}}),
            "out<    x\n[1] extra\n    y\n>");
}

TEST(MergeGolden, ARepeatedLineMeetsItsEqualOnce) {
  EXPECT_EQ(merged(2, {{0, out("a\nm\na\n")}, {1, out("b\na\nc\n")}}),
            "out<[1] b\n    a\n[0] m\n[0] a\n[1] c\n>");
}

TEST(MergeGolden, OneRankIsShownAsItIs) {
  EXPECT_EQ(merged(1, {{0, out("no newline")}}), "out<no newline>");
  EXPECT_EQ(merged(1, {{0, out("a")}, {0, err("b\n")}, {0, out("c\n")}}), "out<ac\n>err<b\n>");
}

TEST(MergeGolden, LinesAreWhatATerminalShows) {
  EXPECT_EQ(merged(1, {{0, out("10%\r20%")}, {0, out("\r100%\n")}}), "out<100%\n>");
  EXPECT_EQ(merged(1, {{0, out("long line\rshort\n")}}), "out<shortline\n>");
  EXPECT_EQ(merged(1, {{0, out("ab\bc\n")}}), "out<ac\n>");
  EXPECT_EQ(merged(1, {{0, out("\b\bx\r\n")}}), "out<x\n>");
  EXPECT_EQ(merged(1, {{0, out("one\ntwo\n\x1b[2Aone!\n")}}), "out<one!\ntwo\n>");
  EXPECT_EQ(merged(1, {{0, out("old text\r\x1b[Knew\n")}}), "out<new\n>");
  EXPECT_EQ(merged(1, {{0, out("\x1b[31mred\x1b")}, {0, out("[0m\n")}}),
            "out<\x1b[31mred\x1b[0m\n>");
  EXPECT_EQ(merged(1, {{0, out("größe\rGR\n")}}), "out<GRöße\n>");
}

TEST(MergeGolden, CharactersCutByThePipeAreJoined) {
  EXPECT_EQ(merged(1, {{0, out("\xe6\x97")}, {0, out("\xa5\n")}}), "out<日\n>");
  EXPECT_EQ(merged(1, {{0, out("\xff\n")}}), "out<\xef\xbf\xbd\n>");
}

TEST(MergeGolden, DisplaysKeepTheirPlace) {
  EXPECT_EQ(merged(2, {{0, out("a\n")},
                       {0, shown(1, "d")},
                       {0, out("b\n")},
                       {1, out("a\n")},
                       {1, shown(1, "d")},
                       {1, out("b\n")}}),
            "out<a\n>display<d>out<b\n>");
  EXPECT_EQ(merged(2, {{0, shown(1, "p")}, {1, shown(1, "q")}}),
            "display<rank 0>display<p>display<rank 1>display<q>");
}

TEST(MergeGolden, AnUpdateChangesTheDisplayInPlace) {
  EXPECT_EQ(merged(2, {{0, shown(1, "old", "h")},
                       {1, shown(1, "old", "h")},
                       {0, out("x\n")},
                       {1, out("x\n")},
                       {0, shown(3, "new", "h")},
                       {1, shown(3, "new", "h")}}),
            "display<new>out<x\n>");
}

TEST(MergeGolden, AClearRemovesWhatCameBefore) {
  EXPECT_EQ(merged(1, {{0, out("a\n")}, {0, clear(false)}, {0, out("b\n")}}), "out<b\n>");
  EXPECT_EQ(merged(1, {{0, out("a\n")}, {0, clear(true)}}), "out<a\n>");
  EXPECT_EQ(merged(1, {{0, out("a\n")}, {0, clear(true)}, {0, out("b\n")}}), "out<b\n>");
}

TEST(MergeGolden, AClearIsShownEvenIfThereWasNothing) {
  MergeEngine engine({0}, MergeOptions{});
  engine.add(0, clear(false), 0);
  const auto events = engine.finish({}, 0);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display, uint32_t(SK_DISPLAY_CLEAR));
}

TEST(MergeGolden, ResultsAreOneResult) {
  EXPECT_EQ(merged(2, {{0, shown(2, "5")}, {1, shown(2, "5")}}), "result<5>");
  EXPECT_EQ(merged(3, {{0, shown(2, "5")}, {1, shown(2, "6\n7")}, {2, shown(2, "5")}}),
            "result<[0,2] 5\n[  1] 6\n      7>");
  EXPECT_EQ(merged(2, {{1, shown(2, "5")}}), "result<[1] 5>");
}

TEST(MergeGolden, ErrorsAreOneError) {
  EXPECT_EQ(merged(1, {{0, failed(0, "ValueError", "boom")}}), "error<ValueError: boom>");
  EXPECT_EQ(merged(2, {{0, failed(0, "ValueError", "boom")}, {1, failed(9, "ValueError", "boom")}}),
            "error<ValueError: boom [ranks 0,1]>");
  constexpr int64_t kMs = 1'000'000;
  EXPECT_EQ(
      merged(3, {{0, failed(50 * kMs, "KeyError", "k")}, {2, failed(20 * kMs, "ValueError", "b")}}),
      "error<MultiRankError: ValueError: b [rank 2]; KeyError: k [rank 0]>");
}

TEST(MergeGolden, WhatFollowedFromAnErrorIsNotTheCause) {
  EXPECT_EQ(merged(2, {{0, failed(1, "PeerLostError", "rank 1", SK_ERROR_CONSEQUENCE)},
                       {1, failed(2, "ValueError", "boom")}}),
            "error<ValueError: ValueError: boom [rank 1]; PeerLostError: rank 1 [rank 0]>");
}

TEST(MergeGolden, TextBeyondTheLimitIsCounted) {
  MergeOptions options;
  options.style.limits.lines = 32;
  options.style.log = "%sk log 3";
  MergeEngine engine({0}, options);
  for (int i = 0; i < 1000; ++i) engine.add(0, out(std::to_string(i) + "\n"), 0);
  Reader reader;
  reader.read(engine.finish({}, 0));
  std::string head;
  for (int i = 0; i < 30; ++i) head += std::to_string(i) + "\n";
  EXPECT_EQ(reader.text(),
            "out<" + head + ">display<… 968 lines elided, `%sk log 3`>out<998\n999\n>");
}

// ---- the live phase ---------------------------------------------------------------------------

constexpr int64_t kMs = 1'000'000;

TEST(MergeLive, ALineWaitsForItsPeers) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  engine.add(0, out("a\n"), 0);
  EXPECT_EQ(engine.deadline_ns(), kHoldNs);
  EXPECT_TRUE(engine.live(50 * kMs).empty());
  engine.add(1, out("a\n"), 60 * kMs);
  const auto events = engine.live(60 * kMs);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "a\n");
  EXPECT_TRUE(events[0].all_ranks);
  EXPECT_TRUE(engine.finish({}, 70 * kMs).empty());
}

TEST(MergeLive, ALineThatWaitedIsShownAndTheViewIsMadeCanonicalAtTheEnd) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  Reader reader;
  engine.add(0, out("a\n"), 0);
  reader.read(engine.live(kHoldNs));
  EXPECT_EQ(reader.text(), "out<[0] a\n>");
  engine.add(1, out("a\n"), 200 * kMs);
  reader.read(engine.live(400 * kMs));
  EXPECT_EQ(reader.text(), "out<[0] a\n[1] a\n>");
  reader.read(engine.finish({}, 500 * kMs));
  EXPECT_EQ(reader.text(), "out<a\n>");
}

TEST(MergeLive, TheFirstTagMovesWhatStandsAbove) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  Reader reader;
  for (uint32_t rank : {0, 1}) engine.add(rank, out("loading\n"), 0);
  reader.read(engine.live(kSettleNs));
  EXPECT_EQ(reader.text(), "out<loading\n>");
  for (uint32_t rank : {0, 1}) engine.add(rank, out("I am " + std::to_string(rank) + "\n"), 0);
  reader.read(engine.live(400 * kMs));
  EXPECT_EQ(reader.text(), "out<    loading\n[0] I am 0\n[1] I am 1\n>");
  for (uint32_t rank : {0, 1}) engine.add(rank, out("done\n"), 400 * kMs);
  reader.read(engine.live(800 * kMs));
  EXPECT_EQ(reader.text(), "out<    loading\n[0] I am 0\n[1] I am 1\n    done\n>");
  EXPECT_TRUE(engine.finish({}, 900 * kMs).empty());
}

// A rank that waits for nothing shows its lines, whatever the others do; the end puts them in
// order.
TEST(MergeLive, LinesOfAFrameAreNotHeldForASlowRank) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  Reader reader;
  engine.add(0, out("head\n0 of 0\n1 of 0\n"), 0);
  reader.read(engine.live(kHoldNs));
  EXPECT_EQ(reader.text(), "out<[0] head\n[0] 0 of 0\n[0] 1 of 0\n>");
  engine.add(1, out("head\n0 of 1\n1 of 1\n"), 10'000 * kMs);
  reader.read(engine.finish({}, 11'000 * kMs));
  EXPECT_EQ(reader.text(), "out<    head\n[0] 0 of 0\n[0] 1 of 0\n[1] 0 of 1\n[1] 1 of 1\n>");
}

TEST(MergeLive, ARankThatIsDoneHoldsNobodyBack) {
  MergeEngine engine(all_ranks(2), MergeOptions{});
  engine.end_rank(1);
  engine.add(0, out("a\n"), 0);
  EXPECT_EQ(engine.deadline_ns(), kSettleNs);
}

TEST(MergeLive, AProgressBarMovesAndLeavesItsLastLine) {
  MergeEngine engine({0}, MergeOptions{});
  Reader reader;
  int64_t now = 0;
  for (int percent = 0; percent <= 100; percent += 10, now += 300 * kMs) {
    engine.add(0, err("\r" + std::to_string(percent) + "%"), now);
    reader.read(engine.live(engine.deadline_ns()));
    EXPECT_EQ(reader.text(), "err<" + std::to_string(percent) + "%>");
  }
  engine.add(0, err("\n"), now);
  reader.read(engine.finish({}, now));
  EXPECT_EQ(reader.text(), "err<100%\n>");
}

TEST(MergeLive, AFloodIsThinned) {
  MergeEngine engine({0}, MergeOptions{});
  size_t messages = 0;
  for (int64_t now = 0; now < 1'000 * kMs; now += kMs) {
    engine.add(0, out("line\n"), now);
    messages += engine.live(now).size();
  }
  EXPECT_GE(messages, 10u);
  EXPECT_LE(messages, 20u);
}

}  // namespace
}  // namespace sk::control
