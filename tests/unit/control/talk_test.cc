// Prompts, the table of comms and the snapshot of names: pure, so driven by hand.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lib/control/talk/comm_table.h"
#include "lib/control/talk/prompts.h"
#include "lib/control/talk/snapshot.h"

namespace sk::control {
namespace {

constexpr int64_t kMs = 1'000'000;

InputRequest question(const std::string& prompt, uint64_t request = 1, bool password = false) {
  return {7, request, prompt, password, false};
}

const Event* shown(const std::vector<Event>& events) {
  for (const Event& event : events)
    if (event.kind == SK_EVENT_INPUT) return &event;
  return nullptr;
}

using Answered = std::vector<std::pair<uint32_t, uint64_t>>;

TEST(Prompts, TheSameOfAllRanksIsOneAndItsAnswerGoesToAll) {
  Prompts prompts;
  prompts.add(2, question("name? ", 5), 0);
  EXPECT_TRUE(prompts.settle({0, 1, 2}, {0, 1, 2}, 0).empty());
  prompts.add(0, question("name? ", 3), 0);
  prompts.add(1, question("name? ", 4), 0);
  const auto events = prompts.settle({0, 1, 2}, {0, 1, 2}, 1);
  ASSERT_NE(shown(events), nullptr);
  EXPECT_EQ(shown(events)->text, "name? ");
  EXPECT_TRUE(shown(events)->all_ranks);
  const uint64_t request = shown(events)->reply.request;
  EXPECT_EQ(prompts.answer(request), (Answered{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_TRUE(prompts.answer(request).empty());  // Once.
}

TEST(Prompts, DifferentOnesComeByRankWithATag) {
  Prompts prompts;
  for (uint32_t rank : {2u, 0u, 1u}) prompts.add(rank, question(std::to_string(rank) + "? "), 0);
  for (uint32_t rank : {0u, 1u, 2u}) {
    const auto events = prompts.settle({0, 1, 2}, {0, 1, 2}, 0);
    ASSERT_NE(shown(events), nullptr);
    EXPECT_EQ(shown(events)->text, "[" + std::to_string(rank) + "] " + std::to_string(rank) + "? ");
    EXPECT_TRUE(prompts.settle({0, 1, 2}, {0, 1, 2}, 0).empty());  // One is open at a time.
    EXPECT_EQ(prompts.answer(shown(events)->reply.request), (Answered{{rank, 1}}));
  }
}

TEST(Prompts, RanksAskedOneByOneMeetAgain) {
  Prompts prompts;
  for (uint32_t rank : {0u, 1u}) prompts.add(rank, question(std::to_string(rank)), 0);
  auto events = prompts.settle({0, 1}, {0, 1}, 0);
  prompts.answer(shown(events)->reply.request);
  prompts.add(0, question("again?", 2), 0);
  events = prompts.settle({0, 1}, {0, 1}, 0);  // Rank 1's first question comes before.
  EXPECT_EQ(shown(events)->text, "[1] 1");
  prompts.answer(shown(events)->reply.request);
  prompts.add(1, question("again?", 2), 0);
  EXPECT_EQ(shown(prompts.settle({0, 1}, {0, 1}, 0))->text, "again?");
}

TEST(Prompts, ARankThatDoesNotAskIsWaitedForOnlyAWhile) {
  Prompts prompts;
  prompts.add(1, question("x"), 0);
  EXPECT_EQ(prompts.deadline_ns(), kPromptHoldNs);
  EXPECT_TRUE(prompts.settle({0, 1}, {0, 1}, kPromptHoldNs - kMs).empty());
  const auto events = prompts.settle({0, 1}, {0, 1}, kPromptHoldNs);
  EXPECT_EQ(shown(events)->text, "[1] x");
  EXPECT_EQ(prompts.deadline_ns(), INT64_MAX);
}

TEST(Prompts, ARankThatIsDoneIsNotWaitedFor) {
  Prompts prompts;
  prompts.add(1, question("x"), 0);
  EXPECT_EQ(shown(prompts.settle({1}, {0, 1}, 0))->text, "[1] x");
}

TEST(Prompts, APasswordIsNotTheSameAsAQuestion) {
  Prompts prompts;
  prompts.add(0, question("x"), 0);
  prompts.add(1, question("x", 1, true), 0);
  const auto events = prompts.settle({0, 1}, {0, 1}, 0);
  EXPECT_EQ(shown(events)->text, "[0] x");
  EXPECT_EQ(shown(events)->reply.answer, 0);
}

TEST(Prompts, WhoLeavesDoesNotBlockTheOthers) {
  Prompts prompts;
  for (uint32_t rank : {0u, 1u, 2u}) prompts.add(rank, question(std::to_string(rank)), 0);
  const uint64_t first = shown(prompts.settle({0, 1, 2}, {0, 1, 2}, 0))->reply.request;
  prompts.withdraw(0);  // The open one.
  prompts.withdraw(1);  // A queued one.
  const auto events = prompts.settle({2}, {0, 1, 2}, 0);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, uint32_t{SK_EVENT_INPUT_END});
  EXPECT_EQ(events[0].reply.request, first);
  EXPECT_EQ(events[1].text, "[2] 2");
  EXPECT_TRUE(prompts.answer(first).empty());
}

TEST(Prompts, WhatIsLeftOfOnePromptStaysOpen) {
  Prompts prompts;
  for (uint32_t rank : {0u, 1u}) prompts.add(rank, question("x", 9), 0);
  const uint64_t request = shown(prompts.settle({0, 1}, {0, 1}, 0))->reply.request;
  prompts.withdraw(1);
  EXPECT_TRUE(prompts.settle({0}, {0, 1}, 0).empty());
  EXPECT_EQ(prompts.answer(request), (Answered{{0, 9}}));
}

// Whatever ranks do, in any order: each question that was not withdrawn is answered once.
TEST(Prompts, EveryQuestionIsAnsweredOnceInAnyOrder) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Prompts prompts;
    std::set<uint32_t> running{0, 1, 2, 3};
    std::map<uint32_t, uint64_t> waiting;  // By rank: the request.
    std::map<uint32_t, uint64_t> asked;
    uint64_t open = 0;
    int64_t now = 0;
    for (int step = 0; step < 200; ++step) {
      const auto rank = static_cast<uint32_t>(random() % 4);
      switch (random() % 4) {
        case 0:
          if (waiting.contains(rank) || !running.contains(rank)) break;
          waiting[rank] = ++asked[rank];
          prompts.add(rank, question(std::to_string(random() % 2), asked[rank]), now);
          break;
        case 1:
          if (random() % 8 != 0) break;
          prompts.withdraw(rank);
          waiting.erase(rank);
          break;
        case 2:
          for (const auto& [who, request] : prompts.answer(open)) {
            ASSERT_TRUE(waiting.contains(who));
            EXPECT_EQ(waiting[who], request);
            waiting.erase(who);
          }
          break;
        default:
          now += kPromptHoldNs / 2;
      }
      for (const Event& event : prompts.settle(running, {0, 1, 2, 3}, now))
        if (event.kind == SK_EVENT_INPUT) open = event.reply.request;
    }
    for (int round = 0; round < 20 && !waiting.empty(); ++round) {
      for (const auto& [who, request] : prompts.answer(open)) waiting.erase(who);
      now += kPromptHoldNs;
      for (const Event& event : prompts.settle(running, {0, 1, 2, 3}, now))
        if (event.kind == SK_EVENT_INPUT) open = event.reply.request;
    }
    EXPECT_TRUE(waiting.empty());
  }
}

Comm comm(uint32_t kind, const std::string& id) {
  Comm message;
  message.kind = kind;
  message.id = id;
  message.data = "{}";
  return message;
}

TEST(CommTable, ARanksCommIsItsOwn) {
  CommTable table;
  EXPECT_EQ(table.from_rank(1, comm(SK_COMM_OPEN, "a"))->id, "a");
  const auto receivers = table.from_session(comm(SK_COMM_MSG, "a"), {0, 1});
  ASSERT_EQ(receivers.size(), 1u);
  EXPECT_EQ(receivers[0].first, 1u);
  EXPECT_FALSE(table.from_rank(0, comm(SK_COMM_MSG, "a")));  // Not rank 0's.
}

TEST(CommTable, TheSameIdOnTwoRanksIsTwoComms) {
  CommTable table;
  EXPECT_EQ(table.from_rank(0, comm(SK_COMM_OPEN, "a"))->id, "a");
  const std::string other = table.from_rank(1, comm(SK_COMM_OPEN, "a"))->id;
  EXPECT_EQ(other, "a-rank1");
  const auto receivers = table.from_session(comm(SK_COMM_MSG, other), {0, 1});
  ASSERT_EQ(receivers.size(), 1u);
  EXPECT_EQ(receivers[0].first, 1u);
  EXPECT_EQ(receivers[0].second.id, "a");  // Unqualified toward its owner.
  EXPECT_EQ(table.from_rank(1, comm(SK_COMM_CLOSE, "a"))->id, other);
  EXPECT_EQ(table.from_session(comm(SK_COMM_MSG, "a"), {0, 1}).size(), 1u);
}

TEST(CommTable, ASharedCommEndsWithItsLastRank) {
  CommTable table;
  EXPECT_EQ(table.from_session(comm(SK_COMM_OPEN, "s"), {0, 2}).size(), 2u);
  EXPECT_TRUE(table.from_session(comm(SK_COMM_OPEN, "s"), {0, 2}).empty());
  EXPECT_EQ(table.from_rank(2, comm(SK_COMM_MSG, "s"))->id, "s");
  EXPECT_FALSE(table.from_rank(0, comm(SK_COMM_CLOSE, "s")));
  EXPECT_EQ(table.from_session(comm(SK_COMM_MSG, "s"), {0, 2}).size(), 1u);
  EXPECT_TRUE(table.from_rank(2, comm(SK_COMM_CLOSE, "s")));
  EXPECT_TRUE(table.from_session(comm(SK_COMM_MSG, "s"), {0, 2}).empty());
}

TEST(CommTable, ADeadRankClosesWhatNobodyElseHas) {
  CommTable table;
  table.from_rank(1, comm(SK_COMM_OPEN, "own"));
  table.from_session(comm(SK_COMM_OPEN, "shared"), {0, 1});
  const auto closed = table.forget(1);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].id, "own");
  EXPECT_EQ(table.forget(0).size(), 1u);
}

Reply ask(const Snapshot& snapshot, uint32_t kind, const std::string& code, uint64_t cursor) {
  Ask ask;
  ask.kind = kind;
  ask.code = code;
  ask.cursor = cursor;
  return snapshot.answer(ask);
}

class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() {
    set("", {{"print", "print(*args)"}, {"property", ""}});
    set("np", {{"np", "module numpy"}, {"np.array", "array(object)"}, {"np._hidden", ""}});
    set("prime", {{"prime", "int"}});
  }
  void set(const std::string& root, const std::vector<Snapshot::Name>& names) {
    ASSERT_EQ(snapshot_.set(root, names).code(), SK_OK);
  }
  std::vector<std::string> matches(const std::string& code) {
    const Reply reply = ask(snapshot_, SK_REQUEST_COMPLETE, code, code.size());
    EXPECT_EQ(reply.end, code.size());
    return reply.strings;
  }
  Snapshot snapshot_;
};

TEST_F(SnapshotTest, CompletesTheWordAtTheCursor) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(matches("x = pri"), (Names{"prime", "print"}));
  EXPECT_EQ(matches("np."), (Names{"array"}));
  EXPECT_EQ(matches("f(np.ar"), (Names{"array"}));
  EXPECT_EQ(matches("np._h"), (Names{"_hidden"}));
  EXPECT_EQ(matches("np.array.x"), (Names{}));
  EXPECT_EQ(matches("nothing"), (Names{}));
  EXPECT_EQ(ask(snapshot_, SK_REQUEST_COMPLETE, "np.ar", 5).start, 3u);
}

TEST_F(SnapshotTest, InspectsTheNameOrTheCallAroundTheCursor) {
  for (const auto& [code, cursor, help] :
       {std::tuple("np.array", 4, "array(object)"), std::tuple("np.array(1, ", 12, "array(object)"),
        std::tuple("print", 5, "print(*args)"), std::tuple("np.array", 1, "module numpy")}) {
    const Reply reply = ask(snapshot_, SK_REQUEST_INSPECT, code, static_cast<uint64_t>(cursor));
    EXPECT_EQ(reply.answer, 1) << code;
    ASSERT_EQ(reply.mimes.size(), 1u) << code;
    EXPECT_EQ(reply.mimes[0].data, help) << code;
  }
  EXPECT_EQ(ask(snapshot_, SK_REQUEST_INSPECT, "unknown", 3).answer, 0);
  EXPECT_EQ(ask(snapshot_, SK_REQUEST_INSPECT, "", 0).answer, 0);
  EXPECT_EQ(ask(snapshot_, SK_REQUEST_IS_COMPLETE, "x", 0).answer, SK_COMPLETE_UNKNOWN);
}

TEST_F(SnapshotTest, ARootIsReplacedAndForgotten) {
  set("np", {{"np", "an int now"}});
  EXPECT_TRUE(matches("np.").empty());
  set("np", {});
  EXPECT_TRUE(matches("n").empty());
}

TEST_F(SnapshotTest, ItIsBoundedAndSaysSo) {
  const std::string large(3 << 20, 'x');
  set("a", {{"a", large}});
  set("b", {{"b", large}});
  const Status full = snapshot_.set("c", {{"c", large}});
  EXPECT_EQ(full.code(), SK_ERR_OUT_OF_RANGE);
  EXPECT_NE(full.message().find("are left"), std::string::npos);
  set("a", {});
  set("c", {{"c", large}});
  EXPECT_EQ(matches("c"), (std::vector<std::string>{"c"}));
}

}  // namespace
}  // namespace sk::control
