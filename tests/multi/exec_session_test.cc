// Cells on ranks through the C ABI alone, with a real controller and stub ranks; and every public
// function of exec.h and worker.h with every bad argument: a code, a sentence, and an object that
// still works.
#include "tests/multi/exec_session.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sk/exec.h"
#include "sk/output.h"
#include "sk/session.h"
#include "sk/worker.h"

namespace {

using sk::testing_support::Gate;
using sk::testing_support::kWaitMs;
using sk::testing_support::Session;

TEST(ExecSession, ACProgramDoesWhatTheNotebookDoes) {
  Session session(3);
  EXPECT_EQ(session.run("print hello"), "hello\n");
  EXPECT_EQ(session.run("print {rank}", "0,2"), "[0] 0\n[2] 2\n");
  EXPECT_EQ(session.run("print {rank}", "1"), "1\n");
}

TEST(ExecSession, CellsRunInOrderAndAFailureDropsTheRest) {
  const Gate gate;
  Session session(2);
  // All three are queued before the first may end: only what waits already is dropped.
  const uint64_t good = session.start(gate.wait() + "print 1"), bad = session.start("error E x"),
                 dropped = session.start("print never");
  gate.open();
  int32_t status = 0;
  EXPECT_EQ(session.finish(good, &status), "1\n");
  session.finish(bad, &status);
  EXPECT_EQ(status, SK_CELL_ERROR);
  EXPECT_EQ(session.finish(dropped, &status), "");
  EXPECT_EQ(status, SK_CELL_ABORTED);
  EXPECT_EQ(session.run("print 2"), "2\n");
}

TEST(ExecSession, InterruptComesFromAnyThread) {
  Session session(2);
  session.run("print up");  // A cell that waits for the ranks to start would be dropped instead.
  const uint64_t cell = session.start("sleep 60000");
  std::thread([&] { EXPECT_EQ(sk_session_interrupt(session.get()), SK_OK); }).join();
  int32_t status = 0;
  session.finish(cell, &status);
  EXPECT_EQ(status, SK_CELL_ERROR);
  EXPECT_EQ(session.run("print on"), "on\n");
}

// A thread says which cell it is of, and its text comes under that one while another runs.
TEST(ExecSession, AThreadKeepsItsCell) {
  Session session(2);
  const uint64_t first = session.start("thread 200 late from {rank}\nprint begun");
  const uint64_t second = session.start("print on\nsleep 60000");
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < 3) {
    sk_event event = {};
    event.struct_size = sizeof event;
    ASSERT_EQ(sk_session_poll(session.get(), kWaitMs, &event), SK_OK) << sk_last_error();
    ASSERT_NE(event.kind, SK_EVENT_NONE);
    if (event.kind == SK_EVENT_STREAM && event.cell == first)
      text.append(event.text, event.text_bytes);
  }
  EXPECT_EQ(text.substr(0, 6), "begun\n");
  EXPECT_NE(text.find("[0] late from 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[1] late from 1\n"), std::string::npos) << text;
  ASSERT_EQ(sk_session_interrupt(session.get()), SK_OK) << sk_last_error();
  int32_t status = 0;
  // What it printed before was polled already, or comes now; of the thread there is nothing.
  EXPECT_EQ(session.finish(second, &status).find("late"), std::string::npos);
}

TEST(ExecSession, SessionsAreIndependent) {
  Session a(2), b(1);
  const uint64_t in_a = a.start("sleep 300\nprint a");
  EXPECT_EQ(b.run("print b"), "b\n");
  b.close();
  int32_t status = 0;
  EXPECT_EQ(a.finish(in_a, &status), "a\n");
}

TEST(ExecSession, CodeAndOutputBeyondAFrame) {
  Session session(2);
  const std::string text(3'000'000, 'y');
  // One line of all of it is shown in part; the display and the log have the whole.
  const std::string shown = session.run("print " + text);
  EXPECT_LT(shown.size(), 300'000u);
  EXPECT_NE(shown.find("more bytes of this line, in the log of cell 1"), std::string::npos);
  sk_log_query query = {};
  query.struct_size = sizeof query;
  query.ranks = "1";
  query.limit = 4'000'000;
  uint64_t request = 0;
  ASSERT_EQ(sk_session_log(session.get(), &query, &request), SK_OK) << sk_last_error();
  session.answer(request, [&](const sk_event& event) {
    EXPECT_EQ(event.total, text.size() + 1);
    EXPECT_TRUE(std::string(event.text, event.text_bytes) == text + "\n");
  });
}

TEST(ExecSession, APollFromASecondThreadIsRefused) {
  Session session(1);
  session.run("print up");
  std::atomic<int> busy{0};
  const uint64_t cell = session.start("sleep 500\nprint x");
  std::thread other([&] {
    for (int i = 0; i < 100'000 && busy == 0; ++i) {
      sk_event event = {};
      event.struct_size = sizeof event;
      if (sk_session_poll(session.get(), 0, &event) == SK_ERR_BUSY) ++busy;
      std::this_thread::yield();
    }
  });
  sk_event event = {};
  event.struct_size = sizeof event;
  while (event.kind != SK_EVENT_CELL_DONE || event.cell != cell) {
    const sk_status status = sk_session_poll(session.get(), 100, &event);
    ASSERT_TRUE(status == SK_OK || status == SK_ERR_BUSY) << sk_last_error();
    if (busy != 0 && status == SK_ERR_BUSY) continue;
    if (event.kind == SK_EVENT_NONE && busy != 0) break;
  }
  other.join();
}

TEST(ExecSession, AForkedChildIsRefused) {
  Session session(1);
  session.run("print up");
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = sk_session_interrupt(session.get()) == SK_ERR_FORKED &&
                         sk_exec(session.get(), nullptr, "x", 1, nullptr, nullptr) == SK_ERR_FORKED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(session.run("print still"), "still\n");
}

TEST(ExecSession, AfterTheEndEveryCallSaysSo) {
  Session session(1);
  sk_session* const handle = session.get();
  session.close();
  EXPECT_EQ(sk_exec(handle, nullptr, "x", 1, nullptr, nullptr), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_session_interrupt(handle), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_session_close(handle), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_session_close(nullptr), SK_OK);
}

struct BadCall {
  const char* name;
  std::function<sk_status()> call;
  sk_status code;
  const char* word;  // In the sentence.
};

void expect_refused(const std::vector<BadCall>& calls) {
  for (const BadCall& bad : calls) {
    EXPECT_EQ(bad.call(), bad.code) << bad.name;
    EXPECT_NE(std::string(sk_last_error()).find(bad.word), std::string::npos)
        << bad.name << ": " << sk_last_error();
  }
}

TEST(ExecSession, EveryBadArgumentHasASentence) {
  Session session(2);
  session.run("print up");
  sk_session* const s = session.get();
  uint64_t id = 0;
  sk_exec_options negative = {}, no_size = {};
  negative.struct_size = sizeof negative;
  negative.execution_count = -1;
  sk_event small = {};
  small.struct_size = 4;
  sk_event fine = {};
  fine.struct_size = sizeof fine;
  const auto exec = [&](const char* ranks) { return sk_exec(s, ranks, "x", 1, nullptr, &id); };
  const auto ask = [&](int32_t kind, uint64_t cursor, int32_t detail) {
    return sk_session_ask(s, kind, "abc", 3, cursor, detail, &id);
  };
  expect_refused({
      {"null session", [&] { return sk_exec(nullptr, nullptr, "x", 1, nullptr, &id); },
       SK_ERR_BAD_HANDLE, "is null"},
      {"null code", [&] { return sk_exec(s, nullptr, nullptr, 5, nullptr, &id); },
       SK_ERR_INVALID_ARGUMENT, "code is NULL"},
      {"too much code", [&] { return sk_exec(s, nullptr, "x", 1ull << 40, nullptr, &id); },
       SK_ERR_OUT_OF_RANGE, "limit"},
      {"rank 2 of 2", [&] { return exec("2"); }, SK_ERR_OUT_OF_RANGE, "ranks 0 to 1"},
      {"no set", [&] { return exec("a-b"); }, SK_ERR_INVALID_ARGUMENT, "a-b"},
      {"long set", [&] { return exec(std::string(100'000, ' ').c_str()); }, SK_ERR_OUT_OF_RANGE,
       "100000 bytes"},
      {"empty set", [&] { return exec(""); }, SK_ERR_INVALID_ARGUMENT, "empty"},
      {"negative count", [&] { return sk_exec(s, nullptr, "x", 1, &negative, &id); },
       SK_ERR_INVALID_ARGUMENT, "execution_count is -1"},
      {"options without size", [&] { return sk_exec(s, nullptr, "x", 1, &no_size, &id); },
       SK_ERR_INVALID_ARGUMENT, "struct_size"},
      {"ask what", [&] { return ask(SK_REQUEST_EXECUTE, 0, 0); }, SK_ERR_INVALID_ARGUMENT, "kind"},
      {"cursor", [&] { return ask(SK_REQUEST_COMPLETE, 4, 0); }, SK_ERR_OUT_OF_RANGE,
       "cursor is 4"},
      {"detail", [&] { return ask(SK_REQUEST_INSPECT, 0, 2); }, SK_ERR_INVALID_ARGUMENT, "detail"},
      {"poll into nothing", [&] { return sk_session_poll(s, 0, nullptr); }, SK_ERR_INVALID_ARGUMENT,
       "event"},
      {"poll into little", [&] { return sk_session_poll(s, 0, &small); }, SK_ERR_INVALID_ARGUMENT,
       "struct_size is 4"},
      {"negative timeout", [&] { return sk_session_poll(s, -1, &fine); }, SK_ERR_INVALID_ARGUMENT,
       "timeout_ms is -1"},
      {"endless timeout", [&] { return sk_session_poll(s, INT64_MAX, &fine); },
       SK_ERR_INVALID_ARGUMENT, "timeout_ms"},
      {"note without a name", [&] { return sk_session_keep(s, "", "x", 1); },
       SK_ERR_INVALID_ARGUMENT, "1 to 256"},
      {"note of nothing", [&] { return sk_session_keep(s, "n", nullptr, 1); },
       SK_ERR_INVALID_ARGUMENT, "text is NULL"},
      {"fd into nothing", [&] { return sk_session_fd(s, nullptr); }, SK_ERR_INVALID_ARGUMENT,
       "out_fd"},
  });
  EXPECT_EQ(session.run("print usable"), "usable\n");
}

TEST(ExecSession, EveryBadConfigurationHasASentence) {
  const char* argv[] = {SK_STUB_RANK, nullptr};
  const char* nothing[] = {nullptr};
  const char* bad_env[] = {"NOVALUE", nullptr};
  sk_session* s = nullptr;
  const auto open_with = [&](const std::function<void(sk_session_config&)>& change) {
    return [&s, &argv, change] {
      sk_session_config config = {};
      config.struct_size = sizeof config;
      config.ranks = 1;
      config.argv = argv;
      config.sk_path = SK_TOOL;
      change(config);
      return sk_session_open(&config, &s);
    };
  };
  using Config = sk_session_config;
  expect_refused({
      {"no config", [&] { return sk_session_open(nullptr, &s); }, SK_ERR_INVALID_ARGUMENT, "NULL"},
      {"no size", open_with([](Config& c) { c.struct_size = 0; }), SK_ERR_INVALID_ARGUMENT,
       "struct_size is 0"},
      {"no ranks", open_with([](Config& c) { c.ranks = 0; }), SK_ERR_INVALID_ARGUMENT,
       "ranks is 0"},
      {"many ranks", open_with([](Config& c) { c.ranks = 5000; }), SK_ERR_INVALID_ARGUMENT,
       "ranks is 5000"},
      {"no argv", open_with([](Config& c) { c.argv = nullptr; }), SK_ERR_INVALID_ARGUMENT, "argv"},
      {"empty argv", open_with([&](Config& c) { c.argv = nothing; }), SK_ERR_INVALID_ARGUMENT,
       "argv"},
      {"bad env", open_with([&](Config& c) { c.env = bad_env; }), SK_ERR_INVALID_ARGUMENT,
       "NOVALUE"},
      {"flags", open_with([](Config& c) { c.flags = 0x80000000; }), SK_ERR_INVALID_ARGUMENT,
       "flags"},
      {"lease", open_with([](Config& c) { c.lease_ms = -1; }), SK_ERR_INVALID_ARGUMENT, "lease_ms"},
      {"start for ever", open_with([](Config& c) { c.start_timeout_ms = INT64_MAX; }),
       SK_ERR_OUT_OF_RANGE, "start_timeout_ms is 9223372036854775807; at most"},
      {"interrupt for ever", open_with([](Config& c) { c.interrupt_ms = (1ll << 40) + 1; }),
       SK_ERR_OUT_OF_RANGE, "interrupt_ms is"},
      {"reserved", open_with([](Config& c) { c.reserved = 1; }), SK_ERR_INVALID_ARGUMENT,
       "reserved is 1"},
      {"no controller", open_with([](Config& c) { c.sk_path = "/no/such/sk"; }), SK_ERR_SYSTEM,
       "/no/such/sk"},
      {"no sk at all", open_with([](Config& c) { c.sk_path = "/bin/true"; }), SK_ERR_SYSTEM,
       "ended before it answered"},
  });
  EXPECT_EQ(s, nullptr);
}

TEST(ExecWorker, OutsideAControllerItSaysSo) {
  sk_worker* worker = nullptr;
  sk_worker_config config = {};
  config.struct_size = sizeof config;
  unsetenv("SK_WORKER_FD");
  expect_refused({
      {"no controller", [&] { return sk_worker_join(&config, &worker); }, SK_ERR_INVALID_ARGUMENT,
       "SK_WORKER_FD is not set"},
      {"nowhere", [&] { return sk_worker_join(&config, nullptr); }, SK_ERR_INVALID_ARGUMENT,
       "out_worker"},
      {"null next", [&] { return sk_worker_next(nullptr, 0, nullptr); }, SK_ERR_BAD_HANDLE,
       "is null"},
      {"null done", [&] { return sk_worker_done(nullptr, 1); }, SK_ERR_BAD_HANDLE, "is null"},
      {"null cell", [&] { return sk_worker_output_cell(nullptr, 1); }, SK_ERR_BAD_HANDLE,
       "is null"},
  });
  config.flags = 0x80;
  EXPECT_EQ(sk_worker_join(&config, &worker), SK_ERR_INVALID_ARGUMENT);
  for (const char* fd : {"x", "-1", "99999", ""}) {
    setenv("SK_WORKER_FD", fd, 1);
    setenv("RANK", "0", 1);
    config.flags = 0;
    EXPECT_NE(sk_worker_join(&config, &worker), SK_OK) << fd;
  }
  unsetenv("SK_WORKER_FD");
  EXPECT_EQ(sk_worker_cancelled(nullptr), 0);
  EXPECT_EQ(sk_worker_leave(nullptr), SK_OK);
}

}  // namespace
