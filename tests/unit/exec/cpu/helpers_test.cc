// A rank's workers and the thread that called, where one of them takes long or runs another's task:
// who wakes whom, who is blamed, and what the caller's own look at the wait decides.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "tests/unit/exec/cpu/two_ranks.h"

namespace sk::cpu {
namespace {

using testing::HasSubstr;

class Helpers : public TwoRanksAndATile {
 protected:
  RankHeader& header() { return ends_[0]->header(); }
  // Until the calling thread sleeps on the rank's doorbell.
  bool driver_sleeps() {
    return testing_support::until([this] { return header().sleeping.load() != 0; });
  }
  // Two tasks, of which each worker runs one: the caller's ends once the other has begun, which
  // then does `others`.
  std::unique_ptr<Program> prepare_two(const std::function<void()>& others) {
    work_[0] = work_[1] = [this, others] {
      if (std::this_thread::get_id() == caller_) {
        EXPECT_TRUE(begun_.await());
      } else {
        begun_.set();
        others();
      }
    };
    RankBuilder builder(0, 2);
    add(builder, 0, 0);
    add(builder, 1, 1);
    return prepare(builder);
  }

  // Both queues await the peer, which also posts a signal.
  static void meet(RankBuilder& builder) {
    builder.set_peers({1});
    builder.add_signal({1, 0, 1});
    builder.add({.op = TaskOp::kEnter});
    builder.add({.op = TaskOp::kAwait});
    builder.add({.op = TaskOp::kAwait, .queue = 1});
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  Flag begun_;
};

TEST_F(Helpers, TheLastWorkerWakesTheCaller) {
  uint32_t rung = 0;
  const std::unique_ptr<Program> program = prepare_two([&] {
    EXPECT_TRUE(driver_sleeps());
    rung = header().doorbell;
  });
  const Status status = run(*program);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(header().doorbell, rung + 1) << "it slept until its time was over";
}

// Of the caller's queue: its first task ends when a helper has begun its second, behind which the
// third is to come.
TEST_F(Helpers, TheOldestTasksEndWakesWhoeverIsBehindAll) {
  RankBuilder builder(0, 2);
  add(builder, 0, 0);
  add(builder, 0, 1);
  add(builder, 0, 2, {.after_all = true});
  builder.add({.op = TaskOp::kNop, .queue = 1});
  uint32_t rung = 0, seen = 0;
  work_[0] = work_[1] = [&] {
    if (std::this_thread::get_id() == caller_) {
      EXPECT_TRUE(begun_.await());
      return;
    }
    begun_.set();
    EXPECT_TRUE(driver_sleeps());
    rung = header().doorbell;
  };
  work_[2] = [&] { seen = header().doorbell; };
  const Status status = run(*prepare(builder));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(seen, rung + 1) << "it slept until its time was over";
}

TEST_F(Helpers, WhatTheCallersLookThrowsEndsTheCallThoughTheWorkersAreThrough) {
  struct Look {
    Flag called, through;
  } look;
  const std::unique_ptr<Program> program = prepare_two([&look] {
    EXPECT_TRUE(look.called.await());
    look.through.set();
  });
  executor_->set_waiting({[](void* user) {
                            auto& own = *static_cast<Look*>(user);
                            own.called.set();
                            EXPECT_TRUE(own.through.await());
                            let_pass(std::chrono::milliseconds(20));
                            throw std::runtime_error("enough");
                          },
                          &look});
  const Status status = run(*program);
  EXPECT_EQ(status.code(), SK_ERR_ABORTED);
  EXPECT_THAT(status.message(), HasSubstr("config.waiting threw"));
}

TEST_F(Helpers, AChildOfTheCallersLookHasNotMadeTheCall) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer starts a thread of its own in children";
#endif
  struct Look {
    Flag called;
    pid_t child = -1;
  } look;
  const std::unique_ptr<Program> program =
      prepare_two([&look] { EXPECT_TRUE(look.called.await()); });
  executor_->set_waiting({[](void* user) {
                            auto& own = *static_cast<Look*>(user);
                            if (own.child < 0) own.child = fork();
                            if (own.child != 0) own.called.set();
                          },
                          &look});
  const Status status = run(*program);
  if (look.child == 0) _exit(status.code() == SK_ERR_FORKED ? 0 : 1);
  EXPECT_TRUE(status.ok()) << status.message();
  ASSERT_GT(look.child, 0);
  int ended = -1;
  ASSERT_EQ(waitpid(look.child, &ended, 0), look.child);
  EXPECT_EQ(ended, 0) << "the child's call was none, and said another thing";
}

// The second queue: a task, one that a helper takes and is long at, and one behind both that needs
// a signal of the peer, which has come long ago.
class LongHelper : public Helpers {
 protected:
  std::unique_ptr<Program> prepare_long(Flag& helped) {
    const Wait wait{1, 0, 1};
    RankBuilder builder(0, 2);
    meet(builder);
    add(builder, 1, 0, {.is_short = true});
    add(builder, 1, 1);
    add(builder, 1, 2, {.after_all = true, .waits = {&wait, 1}});
    work_[0] = [&helped] { EXPECT_TRUE(helped.await()); };
    return prepare(builder);
  }
};

TEST_F(LongHelper, NoPeerIsBlamedForIt) {
  Flag helped;
  const std::unique_ptr<Program> program = prepare_long(helped);
  work_[1] = [&] {
    helped.set();
    let_pass(std::chrono::milliseconds(600));
  };
  post();
  std::thread peer([this] { enter(1); });
  const Status status = run(*program, /*timeout_ns=*/100'000'000);
  peer.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

// While the second worker is at its first task the caller already waits for its second, as a helper
// would; that wait is none of the worker's until its first has ended.
TEST_F(Helpers, EventsOfAWorkerDoNotOverlap) {
  const Wait wait{1, 0, 1};
  RankBuilder builder(0, 2);
  meet(builder);
  add(builder, 1, 0, {.is_short = true});
  add(builder, 1, 1, {.waits = {&wait, 1}});
  const std::unique_ptr<Program> program = prepare(builder);
  TraceBuffer trace;
  trace.event_count_max = 1000;
  executor_->set_trace(&trace);
  work_[0] = [this] {
    let_pass(std::chrono::milliseconds(2));
    post();
  };
  for (uint64_t seq = 1; seq <= 40; ++seq) {
    std::thread peer([&] { enter(seq); });
    const Status status = run(*program);
    peer.join();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  int64_t before_ns = 0;
  for (const TraceBuffer::Run& each : trace.runs) {
    std::vector<TaskEvent> events = each.events;
    std::ranges::sort(events, {}, &TaskEvent::end_ns);
    for (const uint32_t queue : {0u, 1u}) {
      int64_t end_ns = before_ns;
      for (const TaskEvent& event : events) {
        if (event.queue != queue) continue;
        ASSERT_GE(event.wait_ns, end_ns) << "task " << event.task;
        ASSERT_GE(event.start_ns, event.wait_ns);
        end_ns = event.end_ns;
      }
    }
    before_ns = events.back().end_ns;
  }
}

// A call that a peer has declined, and one that goes well: the second's waits began in the second.
TEST_F(LongHelper, ARefusedRunLeavesNoWaitBehind) {
  Flag helped;
  const std::unique_ptr<Program> program = prepare_long(helped);
  TraceBuffer trace;
  trace.event_count_max = 1000;
  executor_->set_trace(&trace);
  work_[1] = [&] { helped.set(); };
  std::thread peer([this] {
    EntrySlot declined{};
    declined.words[1] = uint64_t(SK_ERR_NO_MEMORY);
    enter(1, declined);
    enter(2);
    post();
  });
  EXPECT_EQ(run(*program).code(), SK_ERR_NO_MEMORY);
  EXPECT_TRUE(program->take_refusal().refused);
  let_pass(std::chrono::milliseconds(20));
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t begin_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const Status status = run(*program);
  peer.join();
  ASSERT_TRUE(status.ok()) << status.message();
  for (const TaskEvent& event : trace.runs.back().events)
    EXPECT_GE(event.wait_ns, begin_ns) << "task " << event.task;
}

}  // namespace
}  // namespace sk::cpu
