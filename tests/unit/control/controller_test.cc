// The controller's and agent's state machines, driven by hand: no process, no socket, no clock.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

TEST(Controller, RanksFindTheWholeContract) {
  World world(3);
  const auto& env = world.environment[2];
  for (const char* line : {"RANK=2", "WORLD_SIZE=3", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=3",
                           "GROUP_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1",
                           "SK_MASTER_PORT=3", "SK_JOB_SECRET_FD=6:1:2", "JAX_NUM_PROCESSES=3"})
    EXPECT_NE(std::find(env.begin(), env.end(), line), env.end()) << line;
}

TEST(Controller, RanksShareTheCoresUnlessToldOtherwise) {
  Job job;
  const auto threads = [&](uint32_t world_size) -> std::string {
    for (const std::string& line : rank_environment(0, world_size, job))
      if (line.starts_with("OMP_NUM_THREADS=")) return line.substr(line.find('=') + 1);
    return "";
  };
  EXPECT_EQ(threads(2), "");
  job.cores = 8;
  EXPECT_EQ(threads(2), "4");
  EXPECT_EQ(threads(3), "2");
  EXPECT_EQ(threads(9), "1");
}

TEST(Controller, ACellWaitsForAllRanksToJoinAndEndsWithTheLast) {
  World world(2);
  const uint64_t cell = world.execute();
  EXPECT_EQ(world.count_sent<Execute>(0), 0u);
  world.join_all();
  EXPECT_EQ(world.handed_over, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(world.count_sent<Execute>(0), 1u);
  world.print(0, cell, "hi\n");
  world.done(0, cell);
  EXPECT_EQ(world.ended(cell), 0);
  world.print(1, cell, "hi\n");
  world.done(1, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
  EXPECT_EQ(world.find(SK_EVENT_STREAM)->text, "hi\n");
  EXPECT_TRUE(world.find(SK_EVENT_STREAM)->all_ranks);
}

TEST(Controller, ASubsetRunsOnItsRanksOnly) {
  World world(4);
  world.join_all();
  const uint64_t cell = world.execute("1,3");
  EXPECT_EQ(world.count_sent<Execute>(0) + world.count_sent<Execute>(2), 0u);
  world.done(1, cell);
  world.done(3, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
}

TEST(Controller, AFailureDropsTheQueueUnlessToldToGoOn) {
  for (const bool go_on : {false, true}) {
    World world(1);
    world.join_all();
    const uint64_t first = world.execute("", go_on), second = world.execute();
    world.from(0, Output{first, ++world.seq[0], {{0, ErrorRecord{"E", "v", {}, 0}}}});
    world.done(0, first, SK_CELL_ERROR);
    EXPECT_EQ(world.ended(first), SK_CELL_ERROR);
    EXPECT_EQ(world.ended(second), go_on ? 0 : SK_CELL_ABORTED);
  }
}

TEST(Controller, ADeadRankEndsTheCellAndIsNeverSkippedSilently) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute();
  world.print(1, cell, "last line\n");
  world.die(1);
  EXPECT_EQ(world.count_sent<Interrupt>(0), 1u);  // The survivors are asked to stop.
  EXPECT_EQ(world.ended(cell), 0);
  world.done(0, cell, SK_CELL_ERROR);
  world.done(2, cell, SK_CELL_ERROR);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->ename, "RankDied");
  EXPECT_EQ(world.find(SK_EVENT_STREAM)->text, "[1] last line\n");
  const uint64_t refused = world.execute();
  EXPECT_EQ(world.ended(refused), SK_CELL_ERROR);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->ename, "RankUnavailable");
  EXPECT_EQ(world.count_sent<Execute>(0), 1u);
  const uint64_t on_survivors = world.execute("0,2");
  world.done(0, on_survivors);
  world.done(2, on_survivors);
  EXPECT_EQ(world.ended(on_survivors), SK_CELL_OK);
}

TEST(Controller, ACrashIsToldOnceWithTheFramesOfTheCell) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  const auto complain = [&](const std::string& text) {
    world.from(1,
               Output{cell, ++world.seq[1], {{world.now, StreamRecord{SK_STREAM_STDERR, text}}}});
  };
  complain("a warning\n");
  complain("Fatal Python error: Segmentation fault\n\nThread 0x7f01 (most recent call first):\n");
  complain(
      "  File \"/lib/threading.py\", line 7 in wait\n\nCurrent thread 0x7f02 (most recent call");
  complain(
      " first):\n  File \"/lib/ctypes/__init__.py\", line 519 in string_at\n"
      "  File \"<ipython-input-4-1a2b>\", line 2 in <module>\n"
      "  File \"/lib/IPython/core/interactiveshell.py\", line 3699 in run_code\n\n"
      "Extension modules: numpy (total: 1)\n");
  world.die(1);
  world.done(0, cell, SK_CELL_ERROR);
  const Event& error = *world.find(SK_EVENT_ERROR);
  EXPECT_EQ(error.evalue, "rank 1: killed by signal 9 (SIGKILL) [rank 1]");
  const std::vector<std::string> told = {"RankDied: rank 1: killed by signal 9 (SIGKILL)",
                                         "Fatal Python error: Segmentation fault",
                                         "File \"/lib/ctypes/__init__.py\", line 519 in string_at",
                                         "cell 4, line 2 in <module>", "[rank 1]"};
  EXPECT_EQ(error.traceback, told);
  EXPECT_EQ(world.find(SK_EVENT_STREAM)->text, "[1] a warning\n");
}

TEST(Controller, ADeathEndsTheCellInTimeWhateverTheSurvivorsDo) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  world.die(0);
  world.advance(200 * kMs);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->ename, "RankDied");
}

TEST(Controller, AnInterruptEscalatesAndNamesTheStuck) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute(), queued = world.execute();
  world.controller.on_session_message(Interrupt{}, world.now);
  EXPECT_EQ(world.ended(queued), SK_CELL_ABORTED);
  world.done(0, cell, SK_CELL_ERROR);
  world.advance(600 * kMs);
  EXPECT_EQ(world.count_sent<Interrupt>(1), 2u);
  world.advance(600 * kMs);
  EXPECT_EQ(world.ended(cell), 0);
  world.advance(400 * kMs);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->ename, "KeyboardInterrupt");
  EXPECT_NE(world.find(SK_EVENT_ERROR)->evalue.find("rank 1"), std::string::npos);
  EXPECT_EQ(world.ended(world.execute("1")), SK_CELL_ERROR);  // Not while it is stuck.
  world.done(1, cell, SK_CELL_ERROR);                         // Now it answers,
  const uint64_t next = world.execute();                      // and is whole again.
  world.done(0, next);
  world.done(1, next);
  EXPECT_EQ(world.ended(next), SK_CELL_OK);
}

TEST(Controller, LiesEndTheLiar) {
  const auto lies = std::vector<std::function<void(World&)>>{
      [](World& w) {
        w.from(0, Output{1, w.seq[0] + 2, {{0, StreamRecord{1, "gap"}}}});
      },
      [](World& w) {
        w.print(0, 1, "twice");
        w.from(0, Output{1, 1, {{0, StreamRecord{1, "twice"}}}});
      },
      [](World& w) {
        w.from(0, Done{1, SK_CELL_OK, 7});
      },
      [](World& w) {
        w.from(0, Done{9, SK_CELL_OK, 0});
      },
      [](World& w) { w.from(0, Shutdown{}); },
      [](World& w) { w.from(0, Hello{}); }};
  for (const auto& lie : lies) {
    World world(2);
    world.join_all();
    world.execute();
    lie(world);
    EXPECT_TRUE(world.was_killed(0));
    EXPECT_FALSE(world.was_killed(1));
    world.die(0);
    EXPECT_NE(world.find(SK_EVENT_RANK)->text.find("killed by signal 9"), std::string::npos);
  }
}

TEST(Controller, AWrongRankOrAnEarlyMessageIsRefused) {
  World world(2);
  world.from(0, Hello{kProtocolVersion, 1, 5, true, ""});
  EXPECT_TRUE(world.was_killed(0));
  world.from(1, Done{1, SK_CELL_OK, 0});
  EXPECT_TRUE(world.was_killed(1));
}

TEST(Controller, SilenceIsDeath) {
  World world(2);
  world.join_all();
  for (int i = 0; i < 8; ++i) {
    world.advance(kSecond);
    world.from(1, Heartbeat{});
  }
  EXPECT_TRUE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
}

TEST(Controller, ARankThatDoesNotJoinIsGivenUp) {
  World world(2);
  world.from(1, Hello{kProtocolVersion, 1, 5, true, ""});
  const uint64_t cell = world.execute();
  for (int i = 0; i < 61; ++i) {
    world.advance(kSecond);
    world.from(1, Heartbeat{});
  }
  EXPECT_TRUE(world.was_killed(0));
  world.die(0);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_NE(world.find(SK_EVENT_ERROR)->evalue.find("did not join"), std::string::npos);
}

TEST(Controller, LateTextGoesToItsCell) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.done(1, cell);
  world.print(1, cell, "from a thr");
  world.print(1, cell, "ead\n");
  world.advance(kSecond);
  std::string late;
  for (const Event& event : world.events)
    if (event.kind == SK_EVENT_STREAM && event.cell == cell) late += event.text;
  EXPECT_EQ(late, "[1] from a thread\n");
}

TEST(Controller, QuestionsGoToAnIdleRankAndAlwaysEnd) {
  World world(2);
  world.join_all();
  const Ask ask{1, SK_REQUEST_COMPLETE, "x", 1, 0};
  world.controller.on_session_message(ask, world.now);
  ASSERT_EQ(world.count_sent<Ask>(0), 1u);
  world.from(1, Reply{1, SK_OK, 0, 0, 1, {"forged"}, {}, ""});
  EXPECT_EQ(world.find(SK_EVENT_REPLY), nullptr);  // Not from the one that was asked.
  world.from(0, Reply{1, SK_OK, 0, 0, 1, {"xy"}, {}, ""});
  EXPECT_EQ(world.find(SK_EVENT_REPLY)->reply.strings[0], "xy");
  world.execute();
  world.controller.on_session_message(Ask{2, SK_REQUEST_COMPLETE, "x", 1, 0}, world.now);
  EXPECT_TRUE(std::get<Ask>(world.sent[0].back()).snapshot);  // All are busy: rank 0's I/O thread.
  world.from(0, Reply{2, SK_OK, 0, 0, 1, {"xz"}, {}, ""});
  EXPECT_EQ(world.find(SK_EVENT_REPLY)->reply.strings[0], "xz");
  world.done(0, 1);
  world.controller.on_session_message(Ask{3, SK_REQUEST_COMPLETE, "x", 1, 0}, world.now);
  world.advance(kSecond);
  EXPECT_TRUE(std::get<Ask>(world.sent[0].back()).snapshot);  // Idle, but slow.
  world.die(0);
  EXPECT_EQ(world.find(SK_EVENT_REPLY)->status, SK_ERR_PEER_LOST);
}

TEST(Controller, ShutdownAsksThenForces) {
  World world(1);
  world.join_all();
  world.controller.on_session_message(Shutdown{}, world.now);
  EXPECT_EQ(world.count_sent<Shutdown>(0), 1u);
  EXPECT_TRUE(world.signals.empty());
  world.advance(2 * kSecond);
  EXPECT_EQ(world.signals.back(), std::pair(0u, SIGTERM));
  world.advance(kSecond);
  EXPECT_EQ(world.signals.back(), std::pair(0u, SIGKILL));
  EXPECT_FALSE(world.controller.over());
  world.die(0);
  EXPECT_TRUE(world.controller.over());
  EXPECT_EQ(world.find(SK_EVENT_STATUS)->status, SK_SESSION_OVER);
}

TEST(Controller, ALostSessionEndsTheRanksAfterItsLease) {
  World at_once(1), later(1, /*lease_ms=*/10'000);
  for (World* world : {&at_once, &later}) {
    world->join_all();
    world->controller.on_session_lost(world->now);
  }
  EXPECT_EQ(at_once.count_sent<Shutdown>(0), 1u);
  for (int i = 0; i < 9; ++i) {
    later.advance(kSecond);
    later.from(0, Heartbeat{});
  }
  EXPECT_EQ(later.count_sent<Shutdown>(0), 0u);
  later.advance(kSecond);
  EXPECT_EQ(later.count_sent<Shutdown>(0), 1u);
}

// spawn() may promise a process that another one forks later, or never.
TEST(Controller, ARankThatIsNotForkedAfterAllIsDeadWithTheCause) {
  World world(2);
  const uint64_t cell = world.execute();
  world.from(0, Hello{kProtocolVersion, 0, 100, true, "stub"});
  world.controller.agent().on_not_started(1, "the template exited with code 1", world.now);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  const Event* dead = world.find(SK_EVENT_RANK);
  ASSERT_NE(dead, nullptr);
  EXPECT_EQ(dead->text, "could not be started: the template exited with code 1");
  const size_t events = world.events.size();
  world.controller.agent().on_not_started(1, "again", world.now);  // Told once.
  EXPECT_EQ(world.events.size(), events);
}

TEST(Controller, ARankThatIsNotForkedInTimeSaysWhatItWaitedFor) {
  World world(1);
  world.advance(61 * kSecond);
  ASSERT_FALSE(world.signals.empty());
  EXPECT_EQ(world.signals[0], (std::pair<uint32_t, int>{0, SIGKILL}));
  world.controller.agent().on_not_started(0, "the template was killed", world.now);
  const Event* dead = world.find(SK_EVENT_RANK);
  ASSERT_NE(dead, nullptr);
  EXPECT_EQ(dead->text,
            "could not be started: did not join within 60000 ms (the template was killed)");
}

}  // namespace
}  // namespace sk::control
