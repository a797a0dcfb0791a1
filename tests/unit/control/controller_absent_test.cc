// Who is told that somebody will not come to the cell's collectives, when, and in which words.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

constexpr int64_t kGraceNs = ControllerTimers{}.absent_ns;

void fail_at(World& world, uint32_t rank, uint64_t cell, const std::string& evalue,
             int64_t time_ns) {
  const Record record = {time_ns, ErrorRecord{"ValueError", evalue, {}, 0}};
  world.from(rank, Output{cell, ++world.seq[rank], {record}});
  world.done(rank, cell, SK_CELL_ERROR);
}

void fail(World& world, uint32_t rank, uint64_t cell, const std::string& evalue) {
  fail_at(world, rank, cell, evalue, world.now);
}

const std::vector<Absent::Group>& told(World& world, uint32_t rank) {
  static const std::vector<Absent::Group> nothing;
  const auto* absent = world.last_sent<Absent>(rank);
  return absent == nullptr ? nothing : absent->groups;
}

using Groups = std::vector<Absent::Group>;

TEST(ControllerAbsent, TheOthersHearOfAFailureAMomentLater) {
  World world(4);
  world.join_all();
  const uint64_t cell = world.execute();
  fail(world, 2, cell, "no data");
  world.advance(kGraceNs - 1);
  EXPECT_EQ(world.count_sent<Absent>(0), 0u);
  world.advance(1);
  for (const uint32_t rank : {0, 1, 3}) {
    EXPECT_EQ(world.last_sent<Absent>(rank)->cell, cell);
    EXPECT_EQ(told(world, rank),
              (Groups{{{2}, "the cell has ended there with ValueError: no data"}}));
  }
  EXPECT_EQ(world.count_sent<Absent>(2), 0u);
  world.advance(kSecond);
  EXPECT_EQ(world.count_sent<Absent>(0), 1u);  // Once, until there is more to tell.
}

TEST(ControllerAbsent, WhoFailedIsNamedBeforeWhoIsDone) {
  World world(5);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.advance(kGraceNs);
  EXPECT_EQ(told(world, 1), (Groups{{{0}, "the cell has ended there"}}));
  fail(world, 4, cell, "no data");
  fail(world, 3, cell, "no data");
  world.advance(kGraceNs);
  EXPECT_EQ(told(world, 1), (Groups{{{3, 4}, "the cell has ended there with ValueError: no data"},
                                    {{0}, "the cell has ended there"}}));
  EXPECT_EQ(world.count_sent<Absent>(0), 0u);
}

// What is told does not hang on words or on whose end comes first: a rank whose traceback took long
// to write has failed when its error left the cell's code.
TEST(ControllerAbsent, WhoFailedFirstIsNamedFirst) {
  World world(5);
  world.join_all();
  const uint64_t cell = world.execute();
  const int64_t start_ns = world.now;
  fail_at(world, 0, cell, "a second", start_ns + 200 * kMs);
  fail_at(world, 3, cell, "a second", start_ns + 150 * kMs);
  fail_at(world, 1, cell, "z first", start_ns + 100 * kMs);
  fail_at(world, 2, cell, "m between", start_ns + 120 * kMs);
  world.advance(kGraceNs);
  const std::string with = "the cell has ended there with ValueError: ";
  EXPECT_EQ(
      told(world, 4),
      (Groups{{{1}, with + "z first"}, {{2}, with + "m between"}, {{0, 3}, with + "a second"}}));
}

TEST(ControllerAbsent, RanksThatTheCellDoesNotNameAreAbsentFromTheStart) {
  World world(4);
  world.join_all();
  world.execute("1,2");
  world.advance(kGraceNs);
  for (const uint32_t rank : {1, 2})
    EXPECT_EQ(told(world, rank), (Groups{{{0, 3}, "the cell does not run there"}}));
}

TEST(ControllerAbsent, NobodyIsToldWhereAllEndOrAreInterrupted) {
  World world(3);
  world.join_all();
  const uint64_t first = world.execute();
  for (const uint32_t rank : {0, 1, 2}) world.done(rank, first);
  world.advance(kSecond);
  const uint64_t second = world.execute();
  world.done(0, second);
  world.controller.on_session_message(Interrupt{}, world.now);
  world.advance(kSecond);
  for (const uint32_t rank : {0, 1, 2}) EXPECT_EQ(world.count_sent<Absent>(rank), 0u);
}

TEST(ControllerAbsent, ARankWhoseThreadsHaveStoppedWillNotCome) {
  World world(2);
  world.join_all();
  const uint64_t cell = world.execute();
  Done done{cell, SK_CELL_OK, 0};
  done.lingers = true;
  world.from(1, done);
  world.advance(kGraceNs);
  world.from(1, Heartbeat{0, "", {}, true});
  world.advance(kGraceNs);
  EXPECT_EQ(world.count_sent<Absent>(0), 0u);
  world.from(1, Heartbeat{});
  world.advance(kGraceNs);
  EXPECT_EQ(told(world, 0), (Groups{{{1}, "the cell has ended there"}}));
}

TEST(ControllerAbsent, ARankWhoseThreadsGoOnMayStillCome) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute();
  Done done{cell, SK_CELL_OK, 0};
  done.lingers = true;
  world.from(1, done);
  world.advance(kSecond);
  EXPECT_EQ(world.count_sent<Absent>(0), 0u);
  world.done(2, cell);
  world.advance(kSecond);
  EXPECT_EQ(told(world, 0), (Groups{{{2}, "the cell has ended there"}}));
  world.done(0, cell);
  const uint64_t next = world.execute();  // It holds for what the rank said last.
  world.done(1, next);
  world.advance(kSecond);
  EXPECT_EQ(told(world, 0), (Groups{{{1}, "the cell has ended there"}}));
}

TEST(ControllerAbsent, TheDeadAreNotAbsent) {
  World world(3);
  world.join_all();
  world.die(2);
  world.execute("0");
  world.advance(kSecond);
  EXPECT_EQ(told(world, 0), (Groups{{{1}, "the cell does not run there"}}));
}

TEST(ControllerAbsent, ARankThatGoesOnInTheBackgroundIs) {
  World world(3);
  world.join_all();
  const uint64_t cell = world.execute();
  world.done(0, cell);
  world.done(1, cell);
  world.controller.on_session_message(Interrupt{}, world.now);
  world.advance(3 * kSecond);
  ASSERT_NE(world.ended(cell), 0);
  world.execute("alive");
  world.advance(kGraceNs);
  EXPECT_EQ(told(world, 0),
            (Groups{{{2}, "it goes on in the background with an interrupted cell"}}));
}

TEST(ControllerAbsent, CausesAreShortAndFew) {
  World world(20);
  world.join_all();
  const uint64_t cell = world.execute();
  for (uint32_t rank = 1; rank < 20; ++rank) {
    std::string evalue = "cause " + std::to_string(rank) + "\nsecond line";
    if (rank == 1) evalue = "0" + std::string(300, 'x');
    fail(world, rank, cell, evalue);
  }
  world.advance(kGraceNs);
  const Groups groups = told(world, 0);
  ASSERT_EQ(groups.size(), 9u);
  for (const Absent::Group& group : groups) {
    EXPECT_LT(group.why.size(), 200u);
    EXPECT_EQ(group.why.find('\n'), std::string::npos);
  }
  size_t ranks = 0;
  for (const Absent::Group& group : groups) ranks += group.ranks.size();
  EXPECT_EQ(ranks, 19u);
}

}  // namespace
}  // namespace sk::control
