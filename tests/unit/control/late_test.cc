// Output that comes after its cell: tagged by line, paced, bounded.
#include "lib/control/late.h"

#include <gtest/gtest.h>

#include <map>

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

// What a notebook keeps of all that is due, batch after batch.
void drain(LateOutput& late, testing_support::Reader& reader) {
  while (late.deadline_ns() != INT64_MAX) reader.read(late.due(late.deadline_ns()));
}

std::vector<std::string> displays_of(const std::vector<Event>& events) {
  std::vector<std::string> out;
  for (const Event& event : events)
    if (event.kind == SK_EVENT_DISPLAY && !event.mimes.empty()) out.push_back(event.mimes[0].data);
  return out;
}

TEST(LateOutput, TheNewestUpdateArrives) {
  LateOutput late;
  const RankSet world = all_ranks(4);
  std::map<std::string, std::string> seen;
  size_t messages = 0;
  const auto look = [&](const std::vector<Event>& events) {
    messages += events.size();
    for (const Event& event : events) {
      EXPECT_EQ(event.display, uint32_t(SK_DISPLAY_UPDATE));
      seen[event.display_id] = event.mimes[0].data;
    }
  };
  for (int i = 0; i < 500; ++i) {
    const int64_t now = i * 10 * kMs;
    for (uint32_t rank : world)
      late.add(3, rank, shown(SK_DISPLAY_UPDATE, std::to_string(i), "h" + std::to_string(rank)),
               world, {}, now);
    look(late.due(now));
  }
  while (late.deadline_ns() != INT64_MAX) look(late.due(late.deadline_ns()));
  const std::map<std::string, std::string> wanted = {
      {"h0@0", "499"}, {"h1@1", "499"}, {"h2@2", "499"}, {"h3@3", "499"}};
  EXPECT_EQ(seen, wanted);
  EXPECT_LE(messages, 110u);  // 20 a second.
}

TEST(LateOutput, AnUpdateReplacesWhatWaitsWhateverItsCell) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  late.add(3, 0, shown(SK_DISPLAY_DATA, "start", "h"), world, {}, 0);
  late.add(4, 0, shown(SK_DISPLAY_UPDATE, "one", "h"), world, {}, 0);
  late.add(3, 0, shown(SK_DISPLAY_UPDATE, "two", "h"), world, {}, 0);
  const auto events = late.flush();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].mimes[0].data, "rank 0");
  EXPECT_EQ(events[1].mimes[0].data, "two");
  EXPECT_EQ(events[1].display, uint32_t(SK_DISPLAY_DATA));
  EXPECT_EQ(events[1].cell, 3u);
}

TEST(LateOutput, MoreRanksThanABurstMayHaveAreUpdatedAll) {
  LateOutput late;
  const RankSet world = all_ranks(64);
  for (int i = 0; i < 3; ++i)
    for (uint32_t rank : world)
      late.add(3, rank, shown(SK_DISPLAY_UPDATE, std::to_string(i), "h" + std::to_string(rank)),
               world, {}, 0);
  const auto texts = displays_of(late.flush());
  EXPECT_EQ(texts, std::vector<std::string>(64, "2"));
}

TEST(LateOutput, DisplaysSayWhoseTheyAre) {
  LateOutput late;
  const RankSet world = all_ranks(4);
  late.add(3, 2, shown(SK_DISPLAY_DATA, "mine"), world, {}, 0);
  late.add(3, 0, shown(SK_DISPLAY_DATA, "ours"), world, {}, 0);
  late.add(3, 1, shown(SK_DISPLAY_DATA, "ours"), world, {}, 0);
  const auto events = late.due(late.deadline_ns());
  const std::vector<std::string> wanted = {"rank 2", "mine", "ranks 0,1", "ours"};
  EXPECT_EQ(displays_of(events), wanted);
  for (const Event& event : events) EXPECT_EQ(event.cell, 3u);
}

TEST(LateOutput, OneDisplayOfAllRanksIsShownOnce) {
  LateOutput late;
  const RankSet world = all_ranks(4);
  for (uint32_t rank : world) {
    late.add(3, rank, out("text\n"), world, {}, rank * 20 * kMs);
    late.add(3, rank, shown(SK_DISPLAY_DATA, "same", "h"), world, {}, rank * 20 * kMs);
  }
  const auto events = late.due(late.deadline_ns());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "[0] text\n[1] text\n[2] text\n[3] text\n");
  EXPECT_EQ(events[1].mimes[0].data, "same");
  EXPECT_EQ(events[1].display_id, "h");
  EXPECT_TRUE(events[1].all_ranks);
}

// A rank's displays stay in their order: what is alike is not taken out of it.
TEST(LateOutput, DisplaysOfARankStayInOrder) {
  LateOutput late;
  const RankSet world = all_ranks(2);
  for (const char* text : {"a", "b"}) late.add(3, 0, shown(1, text), world, {}, 0);
  for (const char* text : {"b", "a"}) late.add(3, 1, shown(1, text), world, {}, 0);
  const std::vector<std::string> wanted = {"rank 0", "a", "b", "rank 1", "a"};
  EXPECT_EQ(displays_of(late.flush()), wanted);
}

TEST(LateOutput, DisplaysThatAreTooManyAreCountedAndTheNewestComes) {
  LateOutput late;
  ViewStyle style;
  style.log = "%sk log 3";
  for (int i = 0; i < 100; ++i) late.add(3, 0, shown(1, std::to_string(i)), {0}, style, 0);
  const auto texts = displays_of(late.flush());
  ASSERT_EQ(texts.size(), 33u);
  EXPECT_EQ(texts.front(), "… 68 displays elided, `%sk log 3`");
  EXPECT_EQ(texts[1], "68");
  EXPECT_EQ(texts.back(), "99");
  late.add(3, 0, shown(1, "after"), {0}, style, 0);
  EXPECT_EQ(displays_of(late.flush()), std::vector<std::string>{"after"});
}

TEST(LateOutput, AnUpdateOfADisplayThatWasLeftOutShowsIt) {
  LateOutput late;
  late.add(3, 0, shown(SK_DISPLAY_DATA, "bar", "h"), {0}, {}, 0);
  for (int i = 0; i < 32; ++i) late.add(3, 0, shown(1, "x"), {0}, {}, 0);
  testing_support::Reader reader;
  reader.read(late.flush());
  late.add(3, 0, shown(SK_DISPLAY_UPDATE, "newer", "h"), {0}, {}, 0);
  const auto events = late.flush();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display, uint32_t(SK_DISPLAY_DATA));
  EXPECT_EQ(events[0].mimes[0].data, "newer");
}

TEST(LateOutput, TextBesideAFloodOfDisplaysIsShown) {
  LateOutput late;
  for (int i = 0; i < 50; ++i) late.add(3, 0, shown(1, "x"), {0}, {}, 0);
  late.add(4, 0, out("text\n"), {0}, {}, 0);
  EXPECT_EQ(text_of(late.flush()), "text\n");
}

// An earlier cell's display of all ranks, as every one of them updates it.
TEST(LateOutput, AnUpdateMeansTheDisplayOfAnEarlierCell) {
  DisplayIds ids;
  Event bar = display_event(SK_DISPLAY_DATA, {{"text/plain", "0"}}, all_ranks(2), true);
  bar.display_id = "bar";
  ids.learn({bar}, "");
  ViewStyle style;
  style.past = &ids;
  LateOutput late;
  const RankSet world = all_ranks(2);
  for (uint32_t rank : world)
    late.add(3, rank, shown(SK_DISPLAY_UPDATE, "5", "bar"), world, style, rank * 20 * kMs);
  auto events = late.due(late.deadline_ns());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].display_id, "bar");
  late.add(3, 1, shown(SK_DISPLAY_UPDATE, "6", "bar"), world, style, 0);
  events = late.flush();
  ASSERT_EQ(events.size(), 2u) << "the other rank still means what is there";
  EXPECT_EQ(events[0].mimes[0].data, "rank 1, display bar");
  EXPECT_EQ(events[1].display_id, "bar@1");
}

TEST(LateOutput, FramesOfAllRanksKeepTheirLast) {
  LateOutput late;
  testing_support::Reader reader;
  const RankSet world = all_ranks(4);
  reader.read({display_event(SK_DISPLAY_DATA, {{"text/plain", "old"}}, world, true)});
  for (int i = 0; i < 200; ++i) {
    const int64_t now = i * 10 * kMs;
    for (uint32_t rank : world) {
      late.add(3, rank, testing_support::clear(true), world, {}, now);
      late.add(3, rank, shown(1, std::to_string(i) + " of " + std::to_string(rank)), world, {},
               now);
    }
    reader.read(late.due(now));
  }
  drain(late, reader);
  std::vector<std::string> wanted;
  for (uint32_t rank : world) {
    wanted.push_back("rank " + std::to_string(rank));
    wanted.push_back("199 of " + std::to_string(rank));
  }
  EXPECT_EQ(displays_of(reader.kept()), wanted);
  EXPECT_LE(reader.messages(), 80u);  // 20 a second, and the last ones.
}

TEST(LateOutput, AClearThatWaitsKeepsTheFrameUntilTheNext) {
  LateOutput late;
  testing_support::Reader reader;
  late.add(3, 0, out("old\n"), {0}, {}, 0);
  reader.read(late.flush());
  late.add(3, 0, testing_support::clear(true), {0}, {}, 0);
  EXPECT_TRUE(late.flush().empty());
  EXPECT_EQ(reader.text(), "out<old\n>");
  late.add(3, 0, out("new\n"), {0}, {}, 0);
  late.add(3, 0, testing_support::clear(true), {0}, {}, 0);
  reader.read(late.flush());
  EXPECT_EQ(reader.text(), "out<new\n>");
  late.add(3, 0, testing_support::clear(false), {0}, {}, 0);
  reader.read(late.flush());
  EXPECT_EQ(reader.text(), "");
}

TEST(LateOutput, OneRanksClearLeavesWhatItsPeersHaveWaiting) {
  LateOutput late;
  testing_support::Reader reader;
  const RankSet world = all_ranks(2);
  late.add(3, 1, out("of one\n"), world, {}, 0);
  late.add(3, 0, out("of zero\n"), world, {}, 0);
  late.add(3, 1, shown(1, "d"), world, {}, 0);
  late.add(3, 0, testing_support::clear(false), world, {}, 0);
  reader.read(late.flush());
  EXPECT_EQ(reader.text(), "out<[1] of one\n>display<rank 1>display<d>");
  late.add(3, 0, out("again\n"), world, {}, 0);
  reader.read(late.flush());
  EXPECT_EQ(reader.text(), "out<[0] again\n[1] of one\n>display<rank 1>display<d>");
}

}  // namespace
}  // namespace sk::control
