// The errors of a cell's ranks, each in its own words.
#include "lib/control/merge/errors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/control/codec.h"

namespace sk::control {
namespace {

RankFailure failure(uint32_t rank, ErrorRecord error, int64_t time_ns = 0) {
  return {rank, {time_ns, std::move(error)}};
}

// The tags, dashes and counts of the joined text are in no rank's own.
TEST(ErrorsByRank, AlikeToTheLastByteIsOne) {
  const ErrorRecord one = {"E", "v", {"at 0x1f"}, 0}, other = {"E", "v", {"at 0x2f"}, 0};
  const auto found = errors_by_rank({failure(3, one), failure(0, one), failure(1, other)});
  EXPECT_EQ(found, (std::vector<RankErrors>{{{0, 3}, one}, {{1}, other}}));
  // Whose addresses differ is told as one thing, but each rank keeps its own.
  const Event event =
      render_errors({failure(3, one), failure(0, one), failure(1, other)}, {0, 1, 3});
  EXPECT_EQ(event.traceback.front(), "at 0x1f");
  EXPECT_EQ(event.errors, found);
}

TEST(ErrorsByRank, WhatOneRankRaisedComesBeforeItsDeath) {
  const ErrorRecord raised = {"E", "v", {}, 0}, died = {"RankDied", "rank 1: exit 3", {}, 0};
  const auto found = errors_by_rank({failure(1, died, 9), failure(1, raised, 5)});
  EXPECT_EQ(found, (std::vector<RankErrors>{{{1}, raised}, {{1}, died}}));
}

// A rank that had not begun the cell, or did not stop, is told of by the name that we have for it.
TEST(ErrorsByRank, AnInterruptHasTheNameOfItsLanguage) {
  const auto interrupt = [](const char* name, const char* value = "") {
    return ErrorRecord{name, value, {name}, SK_ERROR_INTERRUPT};
  };
  const RankFailure ours = failure(0, interrupt("KeyboardInterrupt", "before it began"), 1);
  const RankFailure theirs = failure(1, interrupt("InterruptException"), 5);
  const RankFailure after = failure(2, {"LostError", "", {}, SK_ERROR_CONSEQUENCE}, 9);
  const RankFailure other = failure(3, {"E", "v", {}, 0}, 9);
  EXPECT_EQ(render_errors({ours, theirs}, {0, 1}).ename, "InterruptException");
  EXPECT_EQ(render_errors({theirs, ours, after}, {0, 1, 2}).ename, "InterruptException");
  EXPECT_EQ(render_errors({ours}, {0}).ename, "KeyboardInterrupt");
  EXPECT_EQ(render_errors({ours, other}, {0, 3}).ename, "MultiRankError");
  EXPECT_EQ(render_errors({theirs, other}, {1, 3}).ename, "MultiRankError");
}

// 4,096 ranks with long tracebacks of their own are still one message.
TEST(ErrorsByRank, AreBounded) {
  std::vector<RankFailure> failures;
  for (uint32_t rank = 0; rank < 64; ++rank) {
    std::string value = std::to_string(rank) + std::string(1021, 'v') + "€ and more";
    failures.push_back(failure(rank, {"E", value, {std::string(1 << 20, 'x')}, 1}));
  }
  const auto found = errors_by_rank(failures);
  ASSERT_EQ(found.size(), failures.size());
  EXPECT_EQ(found[0].error, failures[0].error.error);
  const ErrorRecord& last = found.back().error;
  EXPECT_EQ(found.back().ranks, (std::vector<uint32_t>{63}));
  EXPECT_EQ(last.ename, "E");
  EXPECT_EQ(last.evalue, "63" + std::string(1021, 'v') + "…");  // No character is cut in two.
  EXPECT_EQ(last.traceback, std::vector<std::string>{"(a traceback of too many bytes)"});
  EXPECT_EQ(last.flags, 1u);
  uint64_t bytes = 0;
  for (const RankErrors& each : found) bytes += each.error.traceback[0].size();
  EXPECT_LE(bytes, (16u << 20) + 64 * 64);
  EXPECT_GT(bytes, 14u << 20);
}

TEST(ErrorsByRank, AMessageThatNamesTooManyRanksIsRefused) {
  Event event;
  event.kind = SK_EVENT_ERROR;
  event.errors = {{all_ranks(kRankCountMax), {"E", "", {}, 0}}};
  EXPECT_TRUE(decode(encode(event)).ok());
  for (int i = 0; i < 4; ++i) event.errors.push_back(event.errors.front());
  EXPECT_FALSE(decode(encode(event)).ok());
  event.errors = {{{}, {"E", "", {}, 0}}};
  EXPECT_FALSE(decode(encode(event)).ok());
  event.errors = {{{1}, {"E", "", {}, 4}}};
  EXPECT_FALSE(decode(encode(event)).ok());
}

}  // namespace
}  // namespace sk::control
