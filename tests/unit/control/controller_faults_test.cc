// Lost and stuck ranks: refused, revived, looked at, told.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void lose_rank_one(World& world) {
  world.join_all();
  world.die(1);
}

TEST(Controller, AnInterruptBeforeTheRanksAreReadyIsSeen) {
  World world(2);
  const uint64_t first = world.execute(), second = world.execute();
  world.controller.on_session_message(Interrupt{}, world.now);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->cell, first);
  EXPECT_EQ(world.find(SK_EVENT_ERROR)->ename, "KeyboardInterrupt");
  std::map<uint64_t, int32_t> ended;
  for (const Event& event : world.events)
    if (event.kind == SK_EVENT_CELL_DONE) ended[event.cell] = event.status;
  EXPECT_EQ(ended,
            (std::map<uint64_t, int32_t>{{first, SK_CELL_ERROR}, {second, SK_CELL_ABORTED}}));
  world.join_all();
  EXPECT_EQ(world.count_sent<Execute>(0), 0u);
}

TEST(ControllerFaults, ARefusalOffersWhatCanBeDone) {
  World world(3);
  lose_rank_one(world);
  world.execute();
  const Event* error = world.find(SK_EVENT_ERROR);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->evalue, "rank 1 is dead: killed by signal 9 (SIGKILL)")) << error->evalue;
  EXPECT_TRUE(has(error->evalue, "The call \"revive\" starts again what is lost"));
  EXPECT_TRUE(has(error->evalue, "the set \"alive\" runs a cell on ranks 0,2"));
  EXPECT_FALSE(has(error->evalue, "%")) << error->evalue;
}

TEST(ControllerFaults, ANotebookIsTalkedToInMagics) {
  World world(3, /*lease_ms=*/0, /*notebook=*/true);
  lose_rank_one(world);
  world.execute();
  const Event* error = world.find(SK_EVENT_ERROR);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->evalue, "`%sk revive` starts again what is lost")) << error->evalue;
  EXPECT_TRUE(has(error->evalue, "`%%on alive` runs a cell on ranks 0,2"));
  EXPECT_FALSE(has(error->evalue, "sk_session")) << error->evalue;
}

TEST(ControllerFaults, SurvivorsThatTakeAMomentToEndAreNotStuck) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute();
  world.die(1);
  world.advance(200 * kMs);
  ASSERT_EQ(world.ended(cell), SK_CELL_ERROR);
  const uint64_t next = world.execute("alive");
  world.done(0, cell, SK_CELL_ERROR);
  EXPECT_EQ(world.count_sent<Execute>(0), 1u);  // Never on fewer: rank 2 may still be alive.
  world.done(2, cell, SK_CELL_ERROR);
  world.done(0, next);
  world.done(2, next);
  EXPECT_EQ(world.ended(next), SK_CELL_OK);
}

TEST(ControllerFaults, ASurvivorThatDoesNotEndIsStuckInTheEnd) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute();
  world.die(1);
  world.done(0, cell, SK_CELL_ERROR);
  world.advance(200 * kMs);
  const uint64_t next = world.execute("alive");
  world.advance(2 * kSecond);
  EXPECT_EQ(world.count_sent<Interrupt>(2), 2u);
  EXPECT_EQ(world.find(SK_EVENT_RANK)->ranks, "2");
  EXPECT_EQ(world.find(SK_EVENT_RANK)->status, SK_RANK_STUCK);
  world.done(0, next);
  EXPECT_EQ(world.ended(next), SK_CELL_OK);
  EXPECT_EQ(world.count_sent<Execute>(2), 1u);
}

TEST(ControllerFaults, AliveIsThoseThatAreReady) {
  World world(3);
  lose_rank_one(world);
  const uint64_t cell = world.execute("alive");
  world.done(0, cell);
  world.done(2, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
  EXPECT_EQ(world.count_sent<Execute>(1), 0u);
  world.die(0);
  world.die(2);
  const uint64_t none = world.execute("alive");
  EXPECT_EQ(world.ended(none), SK_CELL_ERROR);
  EXPECT_TRUE(has(world.find(SK_EVENT_ERROR)->evalue, "no rank is alive"));
}

TEST(ControllerFaults, ARevivedRankIsANewOneAndTheOthersAreNotTouched) {
  World world(3);
  lose_rank_one(world);
  const uint64_t request = world.ask(kAskRevive);
  EXPECT_EQ(world.reply_to(request)->status, SK_OK);
  EXPECT_EQ(world.reply_to(request)->reply.strings, std::vector<std::string>{"1"});
  EXPECT_EQ(world.spawned, (std::map<uint32_t, int>{{0, 1}, {1, 2}, {2, 1}}));
  EXPECT_EQ(world.find(SK_EVENT_RANK)->status, SK_RANK_STARTING);
  const uint64_t all = world.execute();
  EXPECT_EQ(world.count_sent<Execute>(0), 0u);  // It waits for the newcomer,
  world.join(1);
  EXPECT_EQ(world.find(SK_EVENT_STATUS)->status, SK_SESSION_READY);
  EXPECT_EQ(world.count_sent<Execute>(0), 1u);
  for (uint32_t rank : {0, 1, 2}) world.print(rank, all, "again\n");
  for (uint32_t rank : {0, 1, 2}) world.done(rank, all);
  EXPECT_EQ(world.ended(all), SK_CELL_OK);
  EXPECT_FALSE(world.was_killed(0) || world.was_killed(2));
}

TEST(ControllerFaults, CellsOnOthersDoNotWaitForARevivedRank) {
  World world(3);
  lose_rank_one(world);
  world.ask(kAskRevive, "1");
  const uint64_t cell = world.execute("alive");
  world.done(0, cell);
  world.done(2, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
}

TEST(ControllerFaults, AWrongReviveChangesNothingAndSaysWhy) {
  World world(3);
  world.join_all();
  const auto sentence = [&](const std::string& ranks) {
    const Event* reply = world.reply_to(world.ask(kAskRevive, ranks));
    EXPECT_NE(reply->status, SK_OK) << ranks;
    return reply->text;
  };
  EXPECT_TRUE(has(sentence(""), "nothing to revive"));
  EXPECT_TRUE(has(sentence("2"), "rank 2 is alive"));
  EXPECT_TRUE(has(sentence("7"), "rank 7 asked for"));
  EXPECT_TRUE(has(sentence("x"), "no rank and no range"));
  world.die(1);
  EXPECT_TRUE(has(sentence("0-1"), "rank 0 is alive"));
  EXPECT_EQ(world.spawned[1], 1);
  world.ask(kAskRevive);
  EXPECT_TRUE(has(sentence("1"), "coming up already"));
  EXPECT_TRUE(has(sentence(""), "coming up already"));
  EXPECT_EQ(world.spawned[1], 2);
}

TEST(ControllerFaults, AStuckRankIsKilledBeforeItIsRevived) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.controller.on_session_message(Interrupt{}, world.now);
  world.advance(2 * kSecond);
  ASSERT_EQ(world.ended(cell), SK_CELL_ERROR);
  world.ask(kAskRevive);
  EXPECT_TRUE(world.was_killed(1));
  EXPECT_EQ(world.spawned[1], 1);
  world.from(1, Output{cell, world.seq[1] + 1, {{0, StreamRecord{1, "last breath"}}}});
  world.die(1);
  EXPECT_EQ(world.spawned[1], 2);
  world.join(1);
  const uint64_t next = world.execute();
  world.done(0, next);
  world.done(1, next);
  EXPECT_EQ(world.ended(next), SK_CELL_OK);
}

TEST(ControllerFaults, ARankThatDiesAgainWhileItComesUpIsDead) {
  World world(2);
  world.join_all();
  world.die(1);
  world.ask(kAskRevive);
  const uint64_t cell = world.execute();
  world.die(1);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_TRUE(has(world.find(SK_EVENT_ERROR)->evalue, "before it was ready"));
}

TEST(ControllerFaults, EveryRankHearsOfTheGroup) {
  World world(3);
  world.join(0);
  world.join(1);
  EXPECT_EQ(world.count_sent<RankGroup>(0), 0u);
  world.join(2);
  EXPECT_EQ(world.last_sent<RankGroup>(0)->epoch, 1u);
  EXPECT_TRUE(world.last_sent<RankGroup>(2)->missing.empty());
  world.die(1);
  EXPECT_EQ(world.last_sent<RankGroup>(2)->epoch, 2u);
  EXPECT_EQ(world.last_sent<RankGroup>(2)->missing, std::vector<uint32_t>{1});
  world.ask(kAskRevive);
  world.join(1);
  for (uint32_t rank : {0, 1, 2}) {
    EXPECT_EQ(world.last_sent<RankGroup>(rank)->epoch, 3u);
    EXPECT_TRUE(world.last_sent<RankGroup>(rank)->missing.empty());
  }
}

TEST(ControllerFaults, ARankWhoseCommunicatorsAreOverBeginsAnEpochForAll) {
  World world(3);
  world.join_all();
  world.from(1, Regroup{1});
  world.from(2, Regroup{1});  // It saw the same end.
  for (uint32_t rank : {0, 1, 2}) {
    EXPECT_EQ(world.last_sent<RankGroup>(rank)->epoch, 2u);
    EXPECT_EQ(world.count_sent<RankGroup>(rank), 2u);
  }
  world.from(0, Regroup{7});  // There has been no such epoch.
  world.die(1);
  world.from(0, Regroup{3});  // Nobody can connect before all are there again.
  EXPECT_EQ(world.last_sent<RankGroup>(0)->epoch, 3u);
  EXPECT_EQ(world.last_sent<RankGroup>(0)->missing, std::vector<uint32_t>{1});
}

TEST(ControllerFaults, AnEpochThatEndsWithTheCellWaitsForItsSlowestRank) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute("0-1");
  world.from(1, Regroup{1, /*after_cell=*/true});
  world.done(1, cell);
  for (uint32_t rank : {0, 1, 2}) EXPECT_EQ(world.last_sent<RankGroup>(rank)->epoch, 1u);
  world.done(0, cell);
  for (uint32_t rank : {0, 1, 2}) EXPECT_EQ(world.last_sent<RankGroup>(rank)->epoch, 2u);
  EXPECT_FALSE(world.last_sent<RankGroup>(0)->wanted);
  world.from(1, Regroup{2, /*after_cell=*/true});  // No cell runs.
  EXPECT_EQ(world.last_sent<RankGroup>(0)->epoch, 3u);
  EXPECT_FALSE(world.last_sent<RankGroup>(0)->wanted);

  const uint64_t another = world.execute("0-1");
  world.from(1, Regroup{3, /*after_cell=*/true});
  world.from(0, Regroup{3});  // Who waits for it in the cell does not wait for its end.
  EXPECT_EQ(world.last_sent<RankGroup>(0)->epoch, 4u);
  EXPECT_TRUE(world.last_sent<RankGroup>(2)->wanted);  // Also who is in no cell is to come.
  world.done(0, another);
  world.done(1, another);
  EXPECT_EQ(world.last_sent<RankGroup>(0)->epoch, 4u);
}

TEST(ControllerFaults, RevivedRanksAndSurvivorsGetTheSameNewPorts) {
  World world(3);
  const auto has_port = [&](uint32_t rank, const char* line) {
    const auto& env = world.environment[rank];
    return std::find(env.begin(), env.end(), line) != env.end();
  };
  world.join_all();
  EXPECT_TRUE(has_port(1, "MASTER_PORT=1"));
  EXPECT_EQ(world.last_sent<RankGroup>(0)->torch_port, 1);
  world.from(1, Regroup{1});
  EXPECT_EQ(world.last_sent<RankGroup>(0)->torch_port, 1);  // All servers are still wanted.
  world.die(1);
  world.ask(kAskRevive);
  EXPECT_TRUE(has_port(1, "MASTER_PORT=11"));
  EXPECT_TRUE(has_port(1, "JAX_COORDINATOR_ADDRESS=127.0.0.1:12"));
  world.join(1);
  for (uint32_t rank : {0, 1, 2}) {
    EXPECT_EQ(world.last_sent<RankGroup>(rank)->torch_port, 11);
    EXPECT_EQ(world.last_sent<RankGroup>(rank)->jax_port, 12);
  }
  world.no_ports = true;  // Then the old ones must do.
  world.die(2);
  world.ask(kAskRevive);
  EXPECT_TRUE(has_port(2, "MASTER_PORT=11"));
}

TEST(ControllerFaults, AnInterruptNamesTheFrameInWhichRanksAreStuck) {
  World world(4);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.done(3, cell);
  world.controller.on_session_message(Interrupt{}, world.now);
  world.advance(1100 * kMs);
  for (uint32_t rank : {1, 2}) {
    ASSERT_EQ(world.count_sent<Ask>(rank), 1u);
    EXPECT_EQ(world.last_sent<Ask>(rank)->kind, kAskStack);
    Reply reply;
    reply.strings = {"clock_nanosleep (libc.so.6)\nmain (python3)\n",
                     "Current thread 0x7f (most recent call first):\n"
                     "  File \"<ipython-input-4-1a2b>\", line 2 in <module>\n"
                     "  File \"/IPython/core.py\", line 9 in run\n"};
    world.from(rank, reply);
  }
  EXPECT_EQ(world.count_sent<Ask>(0), 0u);
  world.advance(500 * kMs);
  ASSERT_EQ(world.ended(cell), SK_CELL_ERROR);
  const std::string& error = world.find(SK_EVENT_ERROR)->evalue;
  EXPECT_TRUE(has(error, "[ranks 1,2]")) << error;
  EXPECT_TRUE(has(error, "`clock_nanosleep` (libc.so.6)")) << error;
  EXPECT_TRUE(has(error, "at cell 4, line 2 in <module>")) << error;
  EXPECT_TRUE(has(error, "ranks 0,3 finished")) << error;
  EXPECT_EQ(world.find(SK_EVENT_RANK)->ranks, "1,2");
}

TEST(ControllerFaults, TheThirdPressEndsTheCell) {
  World world(1);
  world.join_all();
  const uint64_t cell = world.execute();
  for (int press = 0; press < 3; ++press) {
    EXPECT_EQ(world.ended(cell), 0);
    world.controller.on_session_message(Interrupt{}, world.now);
  }
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST(ControllerFaults, StacksAreMergedAndNobodyIsWaitedForLong) {
  World world(4);
  world.join_all();
  world.die(3);
  const uint64_t request = world.ask(kAskStack);
  const auto answer = [&](uint32_t rank, const std::string& native) {
    Reply reply;
    reply.request = request;
    reply.strings = {native};
    world.from(rank, reply);
  };
  answer(0, "f (a.so)\n");
  answer(2, "f (a.so)\n");
  EXPECT_EQ(world.reply_to(request), nullptr);
  world.advance(kSecond);
  ASSERT_NE(world.reply_to(request), nullptr);
  EXPECT_EQ(world.reply_to(request)->text,
            "[ranks 0,2]\n  native:\n    f (a.so)\n"
            "[rank 1] gave no stack in time: the process does not run (stopped, or no CPU)\n");
  EXPECT_NE(world.reply_to(world.ask(kAskStack, "3"))->status, SK_OK);
}

TEST(ControllerFaults, StatusNamesEveryRanksState) {
  World world(3);
  lose_rank_one(world);
  const uint64_t cell = world.execute("0");
  const std::string json = world.reply_to(world.ask(kAskStatus))->text;
  EXPECT_TRUE(has(json, R"("world_size":3,"epoch":2,"running_cell":1)")) << json;
  EXPECT_TRUE(has(json, R"("name":"here \"quoted\"",)")) << json;
  EXPECT_TRUE(has(json, R"("rank":0,"state":"busy","pid":1000)")) << json;
  EXPECT_TRUE(has(json, R"("state":"dead")"));
  EXPECT_TRUE(has(json, "\"cause\":\"killed by signal 9 (SIGKILL)\""));
  EXPECT_TRUE(has(json, R"("rank":2,"state":"idle")"));
  world.done(0, cell);
}

TEST(ControllerFaults, ALongLineOfLastWordsKeepsItsBeginning) {
  World world(1);
  world.join_all();
  const uint64_t cell = world.execute();
  uint64_t seq = 0;
  for (const std::string& text :
       {std::string("begins "), std::string(30'000, 'x'), std::string("\nends\n")})
    world.from(0, Output{cell, ++seq, {{0, StreamRecord{SK_STREAM_STDERR, text}}}});
  world.die(0);
  const std::string& words = world.find(SK_EVENT_RANK)->text;
  EXPECT_TRUE(has(words, "its last words:\nbegins xxx")) << words;
  EXPECT_TRUE(words.ends_with("x…\nends")) << words;
  EXPECT_LT(words.size(), 2000u);
}

TEST(ControllerFaults, StatusTellsWhatRanksDoAndForWhomTheyWait) {
  World world(3);
  world.join_all();
  const auto status = [&] { return world.reply_to(world.ask(kAskStatus))->text; };
  EXPECT_FALSE(has(status(), "elapsed_seconds"));
  const uint64_t cell = world.execute("0,1");
  world.now += 2 * kSecond;
  world.from(0, Heartbeat{cell, "barrier()", {1, 2}});
  EXPECT_TRUE(has(status(), R"("doing":"cell","execution_count":0,"elapsed_seconds":2.000,)"));
  EXPECT_TRUE(has(status(), R"json("waits_in":"barrier()","waits_for":"1,2"})json")) << status();
  world.from(0, Heartbeat{cell, "", {}});
  EXPECT_FALSE(has(status(), "waits_in"));
  for (uint32_t rank : {0, 1}) world.done(rank, cell);
  Comm opened;
  opened.kind = SK_COMM_OPEN;
  opened.cell = ++world.cells;
  opened.id = "a";
  opened.target = "t";
  world.controller.on_session_message(opened, world.now);
  EXPECT_TRUE(has(status(), R"("rank":0,"state":"busy")")) << status();
  EXPECT_TRUE(has(status(), R"("doing":"comm","execution_count":0,"elapsed_seconds":0.000})"));
  for (uint32_t rank : {0, 1, 2}) world.done(rank, opened.cell);
  EXPECT_FALSE(has(status(), "busy"));
}

TEST(ControllerFaults, ADeathNamesTheKernelsReasonInOneSentence) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  world.from(0, Output{cell, 1, {{0, StreamRecord{SK_STREAM_STDERR, "I need more\n"}}}});
  world.controller.agent().on_exit(0, {true, SIGKILL, true}, world.now);
  world.done(1, cell, SK_CELL_ERROR);
  const std::string& why = world.find(SK_EVENT_ERROR)->evalue;
  EXPECT_TRUE(has(why, "control group is out of memory")) << why;
  EXPECT_FALSE(has(why, "I need more")) << why;  // It stands on stderr, right above.
  EXPECT_EQ(world.find(SK_EVENT_STREAM)->text, "[0] I need more\n");
  EXPECT_TRUE(has(world.find(SK_EVENT_RANK)->text, "its last words:\nI need more"));
}

}  // namespace
}  // namespace sk::control
