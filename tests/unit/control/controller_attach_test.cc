// A front end that is lost, and the next one: everything is told once more, in order, bounded.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

// What a reader sees who starts with an empty page at `from`: text after the last clear.
std::string page(const World& world, uint64_t cell, size_t from) {
  std::string text;
  for (size_t i = from; i < world.events.size(); ++i) {
    const Event& event = world.events[i];
    if (event.cell != cell) continue;
    const bool clears = event.kind == SK_EVENT_DISPLAY && (event.display == SK_DISPLAY_CLEAR ||
                                                           event.display == SK_DISPLAY_CLEAR_WAIT);
    if (clears) text.clear();
    if (event.kind == SK_EVENT_STREAM) text += event.text;
  }
  return text;
}

size_t count(const World& world, uint32_t kind, uint64_t cell, size_t from) {
  return static_cast<size_t>(
      std::count_if(world.events.begin() + static_cast<std::ptrdiff_t>(from), world.events.end(),
                    [&](const Event& e) { return e.kind == kind && e.cell == cell; }));
}

size_t lose_and_attach(World& world, const std::function<void()>& meanwhile) {
  world.controller.on_session_lost(world.now);
  meanwhile();
  const size_t from = world.events.size();
  world.controller.on_session_attached(world.now);
  return from;
}

TEST(ControllerAttach, ARunningCellGoesOnForTheNextFrontEnd) {
  World world(2, /*lease_ms=*/10'000);
  world.join_all();
  const uint64_t cell = world.execute("", false, "{\"header\":1}");
  for (uint32_t rank : {0, 1}) world.print(rank, cell, "before\n");
  world.advance(200 * kMs);
  EXPECT_EQ(page(world, cell, 0), "before\n");
  const size_t from = lose_and_attach(world, [&] {
    for (uint32_t rank : {0, 1}) world.print(rank, cell, "meanwhile\n");
    world.advance(200 * kMs);
  });
  const Event* start = world.find(SK_EVENT_CELL_START);
  EXPECT_EQ(start->tag, "{\"header\":1}");
  EXPECT_EQ(page(world, cell, from), "before\nmeanwhile\n");
  for (uint32_t rank : {0, 1}) world.print(rank, cell, "after\n");
  for (uint32_t rank : {0, 1}) world.done(rank, cell);
  EXPECT_EQ(page(world, cell, from), "before\nmeanwhile\nafter\n");
  EXPECT_EQ(count(world, SK_EVENT_CELL_DONE, cell, from), 1u);
}

TEST(ControllerAttach, AnEndThatNobodyHeardIsToldUntilItIsAcknowledged) {
  World world(1, 10'000);
  world.join_all();
  const uint64_t cell = world.execute("", false, "tag");
  size_t from = lose_and_attach(world, [&] {
    world.print(0, cell, "alone\n");
    world.from(0, Output{cell, ++world.seq[0], {{0, ErrorRecord{"E", "v", {}, 0}}}});
    world.done(0, cell, SK_CELL_ERROR);
  });
  EXPECT_EQ(page(world, cell, from), "alone\n");
  EXPECT_EQ(count(world, SK_EVENT_ERROR, cell, from), 1u);
  EXPECT_EQ(count(world, SK_EVENT_CELL_DONE, cell, from), 1u);
  from = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_CELL_DONE, cell, from), 1u);
  world.controller.on_session_message(Ack{cell}, world.now);
  from = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_CELL_START, cell, from), 0u);
  EXPECT_EQ(page(world, cell, from), "");
}

TEST(ControllerAttach, ACellThatWaitsIsTold) {
  World world(1, 10'000);
  world.join_all();
  const uint64_t running = world.execute("", false, "one");
  const uint64_t waiting = world.execute("", false, "two");
  size_t from = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_CELL_QUEUED, running, from), 0u);
  EXPECT_EQ(count(world, SK_EVENT_CELL_QUEUED, waiting, from), 1u);
  EXPECT_EQ(world.find(SK_EVENT_CELL_QUEUED)->tag, "two");
  world.done(0, running);
  EXPECT_EQ(count(world, SK_EVENT_CELL_START, waiting, from), 1u);
  from = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_CELL_QUEUED, waiting, from), 0u);
}

TEST(ControllerAttach, LateTextThatNobodyHeardIsToldOnce) {
  World world(1, 10'000);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.controller.on_session_message(Ack{cell}, world.now);
  size_t from = lose_and_attach(world, [&] {
    world.print(0, cell, "late\n");
    world.advance(kSecond);
  });
  EXPECT_EQ(page(world, cell, from), "late\n");
  EXPECT_EQ(count(world, SK_EVENT_CELL_START, cell, from), 0u);
  from = lose_and_attach(world, [] {});
  EXPECT_EQ(page(world, cell, from), "");
}

TEST(ControllerAttach, LostRanksAndTheLastTagAreToldFirst) {
  World world(2, 10'000);
  world.join_all();
  const uint64_t cell = world.execute("", false, "seven");
  world.done(0, cell);
  world.done(1, cell);
  world.die(1);
  const size_t from = lose_and_attach(world, [] {});
  EXPECT_EQ(world.events[from].kind, uint32_t(SK_EVENT_STATUS));
  EXPECT_EQ(world.events[from].tag, "seven");
  EXPECT_EQ(world.events[from + 1].status, SK_RANK_DEAD);
}

TEST(ControllerAttach, TheLeaseEndsUnlessSomebodyCame) {
  World world(1, 1'000);
  world.join_all();
  lose_and_attach(world, [] {});
  world.advance(3 * kSecond);
  EXPECT_EQ(world.count_sent<Shutdown>(0), 0u);
  world.controller.on_session_lost(world.now);
  world.controller.on_nobody_left(world.now);
  EXPECT_EQ(world.count_sent<Shutdown>(0), 1u);
}

TEST(ControllerAttach, OfALongStreamBothEndsAreKept) {
  Journal journal;
  journal.begin(1, "t");
  Event event;
  event.kind = SK_EVENT_STREAM;
  event.cell = 1;
  event.stream = SK_STREAM_STDOUT;
  uint64_t sent = 0;
  for (int i = 0; i < 200'000; ++i) {
    event.text = "line " + std::to_string(i) + " of a flood that nobody reads for a while\n";
    sent += event.text.size();
    journal.add(event, false);
  }
  const std::vector<Event> replay = journal.replay();
  const std::string& text = replay.back().text;
  EXPECT_LT(text.size(), 5 * Journal::kStreamKept);
  EXPECT_TRUE(text.starts_with("line 0 "));
  EXPECT_TRUE(text.ends_with("line 199999 of a flood that nobody reads for a while\n"));
  const size_t at = text.find("bytes elided");
  ASSERT_NE(at, std::string::npos);
  const uint64_t elided = std::strtoull(text.c_str() + text.rfind("... ", at) + 4, nullptr, 10);
  const size_t begin = text.rfind("\n... ", at), end = text.find("...\n", at) + 4;
  EXPECT_EQ(text.size() - (end - begin) + elided, sent);
}

// Whoever starts a kernel anew gets one that runs cells, whatever became of the ranks.
TEST(ControllerAttach, LostRanksBeginAgain) {
  World world(3, 10'000);
  world.join_all();
  size_t from = lose_and_attach(world, [&] {
    for (uint32_t rank : {0, 1, 2}) world.die(rank);
  });
  EXPECT_EQ(world.spawned, (std::map<uint32_t, int>{{0, 2}, {1, 2}, {2, 2}}));
  const Event* said = world.find(SK_EVENT_RANK);
  EXPECT_EQ(said->status, SK_RANK_STARTING);
  EXPECT_EQ(said->ranks, "0-2");
  EXPECT_TRUE(said->text.starts_with("ranks 0-2 were lost, and have been started again"));
  // Told before the state that ends the past.
  EXPECT_EQ(world.events.back().kind, uint32_t(SK_EVENT_STATUS));
  EXPECT_EQ(world.events.back().status, SK_SESSION_STARTING);
  const uint64_t cell = world.execute();
  world.join_all();
  for (uint32_t rank : {0, 1, 2}) world.done(rank, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
  // Those that live keep what they have.
  from = lose_and_attach(world, [&] { world.die(1); });
  EXPECT_EQ(world.spawned, (std::map<uint32_t, int>{{0, 2}, {1, 3}, {2, 2}}));
  EXPECT_FALSE(world.was_killed(0) || world.was_killed(2));
  world.join(1);
  from = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_RANK, 0, from), 0u);
}

TEST(ControllerAttach, AStuckRankBeginsAgainAndOneOfARunningCellDoesNot) {
  World world(2, 10'000);
  world.join_all();
  world.execute();
  world.controller.on_session_message(Interrupt{}, world.now);
  world.done(0, 1, SK_CELL_ERROR);
  world.advance(5 * kSecond);
  ASSERT_EQ(world.ended(1), SK_CELL_ERROR);  // Without rank 1.
  lose_and_attach(world, [] {});
  EXPECT_TRUE(world.was_killed(1));
  world.die(1);
  world.join(1);
  const uint64_t cell = world.execute("0");
  world.die(1);
  lose_and_attach(world, [] {});
  EXPECT_EQ(world.spawned[1], 2);  // The cell goes on as it began.
  world.done(0, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
}

TEST(ControllerAttach, NotesAreToldInOrderBetweenTheLostRanksAndTheCells) {
  World world(1, 10'000);
  world.join_all();
  const uint64_t cell = world.execute("", false, "tag");
  const auto note = [&](const char* name, std::string text, bool kept = true) {
    world.controller.on_session_message(Note{name, std::move(text), kept}, world.now);
  };
  note("b", "first");
  note("b", "second");
  note("a", "one");
  note("c", "gone");
  note("c", "", false);
  note("d", "never there", false);
  note("e", std::string(Notes::kBytesMax, 'x'));  // Beside the others it does not fit.
  std::vector<std::pair<std::string, std::string>> told;
  size_t before_cells = 0;
  const size_t from = lose_and_attach(world, [] {});
  for (size_t i = from; i < world.events.size(); ++i) {
    const Event& event = world.events[i];
    if (event.kind == SK_EVENT_NOTE) told.emplace_back(event.tag, event.text);
    if (event.kind == SK_EVENT_CELL_START && event.cell == cell) before_cells = told.size();
  }
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"a", "one"}, {"b", "second"}, {"e", ""}};
  EXPECT_EQ(told, expected);
  EXPECT_EQ(before_cells, 3u);
  note("b", "", false);
  note("e", std::string(Notes::kBytesMax - 3, 'x'));  // What was taken away leaves room.
  const size_t again = lose_and_attach(world, [] {});
  EXPECT_EQ(count(world, SK_EVENT_NOTE, 0, again), 2u);
  EXPECT_EQ(world.find(SK_EVENT_NOTE)->text.size(), Notes::kBytesMax - 3);
}

}  // namespace
}  // namespace sk::control
