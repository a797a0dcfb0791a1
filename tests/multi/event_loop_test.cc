// Ranks of a language that waits in an event loop of its own: woken by descriptors, and given
// SIGINT only where the loop does not turn.
#include <gtest/gtest.h>

#include <string>

#include "sk/session.h"
#include "sk/worker.h"
#include "tests/multi/exec_session.h"

namespace {

using sk::testing_support::kWaitMs;
using sk::testing_support::Session;

constexpr const char* kLoop = "SK_STUB_LOOP=1";

// Interrupts the cell; the name of the error that it ends with.
std::string interrupted(Session& session, const std::string& code) {
  const uint64_t cell = session.start(code);
  bool has_begun = false;
  std::string name;
  while (true) {
    sk_event event = {};
    event.struct_size = sizeof event;
    if (sk_session_poll(session.get(), kWaitMs, &event) != SK_OK || event.kind == SK_EVENT_NONE) {
      ADD_FAILURE() << "no end: " << sk_last_error();
      return name;
    }
    if (event.cell != cell) continue;
    if (event.kind == SK_EVENT_STREAM && !has_begun) {
      has_begun = true;
      EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK) << sk_last_error();
    }
    if (event.kind == SK_EVENT_ERROR) name = event.ename;
    if (event.kind == SK_EVENT_CELL_DONE) return name;
  }
}

TEST(EventLoop, CellsRunAndTheNextIsHeard) {
  Session session(2, kLoop);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(session.run("print hello"), "hello\n");
  EXPECT_EQ(session.run("c from C\nprint {rank}", "1"), "from C\n1\n");
}

// The rank takes one of them a turn, as its descriptor says that there may be something.
TEST(EventLoop, WhatComesTogetherIsHeardOneByOne) {
  Session session(2, kLoop);
  session.run("print up");
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 4; ++i) {
      uint64_t question = 0;
      ASSERT_EQ(sk_session_ask(session.get(), SK_REQUEST_COMPLETE, "x", 1, 1, 0, &question), SK_OK);
    }
    ASSERT_EQ(session.run("print on"), "on\n") << "round " << round;
  }
}

TEST(EventLoop, AParkedRankIsWokenAndGetsNoSignal) {
  Session session(2, kLoop);
  session.run("print up");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(interrupted(session, "print in\npark 60000"), "Woken");
    EXPECT_EQ(session.run("print on"), "on\n");
  }
}

TEST(EventLoop, CodeThatKeepsTheLoopFromTurningGetsTheSignal) {
  Session session(2, kLoop);
  session.run("print up");
  EXPECT_EQ(interrupted(session, "print in\nsleep 60000"), "KeyboardInterrupt");
  EXPECT_EQ(session.run("print on"), "on\n");
}

TEST(EventLoop, WithoutTheFlagThereAreNoDescriptors) {
  int32_t one = 0, other = 0;
  uint64_t cell = 0;
  EXPECT_EQ(sk_worker_fds(nullptr, &one, &other), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_worker_interrupted(nullptr, &cell), SK_ERR_BAD_HANDLE);
}

}  // namespace
