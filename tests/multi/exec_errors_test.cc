// Whose error is whose, through the C ABI: what one event tells of all ranks, and of each.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "sk/exec.h"
#include "sk/worker.h"
#include "tests/multi/exec_session.h"

namespace {

using sk::testing_support::kWaitMs;
using sk::testing_support::Session;

// The event of `kind` that comes next, into the caller's struct.
void next(Session& session, int32_t kind, sk_event* event) {
  do {
    ASSERT_EQ(sk_session_poll(session.get(), kWaitMs, event), SK_OK) << sk_last_error();
    ASSERT_NE(event->kind, SK_EVENT_NONE);
  } while (event->kind != kind);
}

sk_event next(Session& session, int32_t kind) {
  sk_event event = {};
  event.struct_size = sizeof event;
  next(session, kind, &event);
  return event;
}

std::vector<std::string> lines_of(const sk_rank_error& error) {
  return {error.traceback, error.traceback + error.traceback_count};
}

TEST(ExecErrors, EachRankHasItsOwn) {
  Session session(4);
  session.start("on 1,3 error KeyError k\non 2 error ValueError from {rank}");
  const sk_event event = next(session, SK_EVENT_ERROR);
  EXPECT_STREQ(event.ename, "MultiRankError");
  EXPECT_STREQ(event.ranks, "1-3");
  ASSERT_EQ(event.error_count, 3u);
  const std::string names[] = {"KeyError", "ValueError", "KeyError"};
  const std::string values[] = {"k", "from 2", "k"};
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const sk_rank_error& own = event.errors[i];
    EXPECT_EQ(own.rank, i + 1);
    EXPECT_EQ(own.flags, 0u);
    EXPECT_EQ(own.ename, names[i]);
    EXPECT_EQ(own.evalue, values[i]);
    const std::vector<std::string> lines = {"script", names[i] + ": " + values[i]};
    EXPECT_EQ(lines_of(own), lines);
  }
  // Together they are told once, with their ranks.
  const std::string joined = event.evalue;
  EXPECT_NE(joined.find("KeyError: k [ranks 1,3]"), std::string::npos) << joined;
  EXPECT_EQ(joined.find("KeyError"), joined.rfind("KeyError")) << joined;
}

TEST(ExecErrors, OfOneRankItIsThatRanksAlone) {
  Session session(2);
  session.start("on 1 error E x");
  sk_event event = next(session, SK_EVENT_ERROR);
  EXPECT_STREQ(event.evalue, "x [rank 1]");
  ASSERT_EQ(event.error_count, 1u);
  EXPECT_EQ(event.errors[0].rank, 1);
  EXPECT_STREQ(event.errors[0].evalue, "x");
  event = next(session, SK_EVENT_CELL_DONE);
  EXPECT_EQ(event.error_count, 0u);
}

TEST(ExecErrors, ADeathIsToldOfItsRankAndOthersMayFollow) {
  Session session(2);
  session.run("print up");
  session.start("on 1 exit 3\nsleep 60000");
  const sk_event event = next(session, SK_EVENT_ERROR);
  ASSERT_EQ(event.error_count, 2u);
  EXPECT_EQ(event.errors[0].rank, 0);
  EXPECT_NE(event.errors[0].flags & SK_ERROR_INTERRUPT, 0u);
  EXPECT_EQ(event.errors[1].rank, 1);
  EXPECT_STREQ(event.errors[1].ename, "RankDied");
  EXPECT_NE(std::string(event.errors[1].evalue).find("exit"), std::string::npos);
}

TEST(ExecErrors, ACellThatWasNotRunHasNone) {
  Session session(2);
  session.run("print up");
  int32_t status = 0;
  session.finish(session.start("on 1 exit 3"), &status);
  session.start("print never", "1");
  const sk_event event = next(session, SK_EVENT_ERROR);
  EXPECT_STREQ(event.ename, "RankUnavailable");
  EXPECT_EQ(event.error_count, 0u);
}

// A program that was compiled before there were any: nothing behind its struct is touched.
TEST(ExecErrors, AnOlderCallersEventEndsBeforeThem) {
  Session session(2);
  session.start("error E x");
  struct {
    sk_event event;
    unsigned char behind[16];
  } caller;
  std::memset(&caller, 0x5a, sizeof caller);
  constexpr size_t kOld = offsetof(sk_event, errors);
  caller.event.struct_size = kOld;
  next(session, SK_EVENT_ERROR, &caller.event);
  EXPECT_STREQ(caller.event.ename, "E");
  EXPECT_EQ(caller.event.struct_size, kOld);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&caller);
  for (size_t i = kOld; i < sizeof caller; ++i) ASSERT_EQ(bytes[i], 0x5a) << i;
}

TEST(ExecErrors, ASizeThatCutsThemIsRefusedAndNothingIsLost) {
  Session session(1);
  session.start("error E x");
  for (const size_t size : {offsetof(sk_event, errors) + 4, sizeof(sk_event) - 4, size_t{4104}}) {
    sk_event event = {};
    event.struct_size = static_cast<uint32_t>(size);
    EXPECT_EQ(sk_session_poll(session.get(), 0, &event), SK_ERR_INVALID_ARGUMENT);
    const std::string wanted = "sk_event: struct_size is " + std::to_string(size);
    EXPECT_NE(std::string(sk_last_error()).find(wanted), std::string::npos) << sk_last_error();
  }
  EXPECT_EQ(next(session, SK_EVENT_ERROR).error_count, 1u);
}

}  // namespace
