// Ranks that have heard an interrupt and take their time to end, and those that have not.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

constexpr int64_t kGiveUpNs = ControllerTimers{}.give_up_ns;

class ControllerInterrupt : public testing::Test {
 protected:
  ControllerInterrupt() {
    world.join_all();
    cell = world.execute();
  }
  void press() { world.controller.on_session_message(Interrupt{}, world.now); }
  void leave_code(uint32_t rank) {
    Heartbeat beat{cell};
    beat.left = true;
    world.from(rank, beat);
  }
  bool is_stuck(uint32_t rank) const { return world.told_stuck(rank); }

  World world{2};
  uint64_t cell = 0;
};

TEST_F(ControllerInterrupt, ARankThatWritesItsErrorIsNotStuck) {
  press();
  leave_code(0);
  leave_code(1);
  world.advance(2 * kGiveUpNs);
  for (uint32_t rank : {0, 1}) {
    EXPECT_EQ(world.count_sent<Interrupt>(rank), 1u);  // A second would meet its traceback.
    EXPECT_FALSE(is_stuck(rank));
    world.done(rank, cell, SK_CELL_ERROR);
  }
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_EQ(world.find(SK_EVENT_ERROR), nullptr);  // Nothing but what they say themselves.
}

TEST_F(ControllerInterrupt, QuickPressesDoNotEndItEither) {
  for (int press_count = 0; press_count < 4; ++press_count) {
    press();
    leave_code(0);
  }
  EXPECT_FALSE(is_stuck(0));
  EXPECT_TRUE(is_stuck(1));                       // The third press gives up on who has not heard.
  EXPECT_EQ(world.count_sent<Interrupt>(0), 4u);  // An error that hangs ends by the next press.
  world.done(0, cell, SK_CELL_ERROR);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST_F(ControllerInterrupt, OneThatNeverEndsIsStuckAllTheSame) {
  press();
  leave_code(0);
  world.done(1, cell, SK_CELL_ERROR);
  world.advance(3 * kGiveUpNs);
  EXPECT_EQ(world.ended(cell), 0);
  world.advance(2 * kGiveUpNs);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  EXPECT_TRUE(is_stuck(0));
}

TEST_F(ControllerInterrupt, WhoIsNotReadYetIsNotStuckYet) {
  press();
  world.unread = {0};
  world.advance(2 * kGiveUpNs);
  EXPECT_TRUE(is_stuck(1));
  EXPECT_FALSE(is_stuck(0));
  world.unread.clear();
  world.advance(kGiveUpNs);  // Read, and no end was among it.
  EXPECT_TRUE(is_stuck(0));
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

// The rank knows whether it has heard the first; the user's next press is another.
TEST_F(ControllerInterrupt, OnlyTheControllersOwnSecondIsTheSameAgain) {
  press();
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 0u);
  world.advance(kGiveUpNs / 2);
  ASSERT_EQ(world.count_sent<Interrupt>(0), 2u);
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 1u);
  press();
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 0u);
}

TEST_F(ControllerInterrupt, WhoIsStuckIsToldThatByTheNextPress) {
  press();
  world.done(1, cell, SK_CELL_ERROR);
  world.advance(2 * kGiveUpNs);
  ASSERT_TRUE(is_stuck(0));
  press();
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 2u);
  EXPECT_EQ(world.last_sent<Interrupt>(0)->cell, cell);
  EXPECT_EQ(world.last_sent<Interrupt>(1)->level, 0u);
}

TEST_F(ControllerInterrupt, AnEarlierCellsErrorExcusesNothing) {
  press();
  leave_code(0);
  world.done(0, cell, SK_CELL_ERROR);
  world.done(1, cell, SK_CELL_ERROR);
  cell = world.execute();
  press();
  world.advance(2 * kGiveUpNs);
  EXPECT_TRUE(is_stuck(0) || world.find(SK_EVENT_RANK)->ranks == "0,1");
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST_F(ControllerInterrupt, ASurvivorThatWritesItsErrorSettles) {
  world.die(1);
  leave_code(0);
  world.advance(2 * kGiveUpNs);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  const uint64_t next = world.execute("alive");
  EXPECT_EQ(world.count_sent<Execute>(0), 1u);
  world.done(0, cell, SK_CELL_ERROR);
  EXPECT_FALSE(is_stuck(0));
  EXPECT_EQ(world.count_sent<Execute>(0), 2u);
  world.done(0, next);
  EXPECT_EQ(world.ended(next), SK_CELL_OK);
}

TEST_F(ControllerInterrupt, WhatIsQueuedBehindItIsRun) {
  const uint64_t before = world.execute();
  press();
  EXPECT_EQ(world.ended(before), SK_CELL_ABORTED);
  const uint64_t after = world.execute();
  for (uint32_t rank : {0, 1}) world.done(rank, cell, SK_CELL_ERROR);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
  for (uint32_t rank : {0, 1}) world.done(rank, after);
  EXPECT_EQ(world.ended(after), SK_CELL_OK);
}

TEST_F(ControllerInterrupt, OneCellAloneAndNoOther) {
  const uint64_t dropped = world.execute(), kept = world.execute();
  const auto cancel = [&](uint64_t which) {
    world.controller.on_session_message(Interrupt{which, 0}, world.now);
  };
  cancel(dropped);
  cancel(99);  // There is none.
  EXPECT_EQ(world.ended(dropped), SK_CELL_ABORTED);
  EXPECT_EQ(world.count_sent<Interrupt>(0), 0u);
  cancel(cell);
  EXPECT_EQ(world.count_sent<Interrupt>(0), 1u);
  for (uint32_t rank : {0, 1}) world.done(rank, cell, SK_CELL_ERROR);
  cancel(cell);  // It has ended.
  EXPECT_EQ(world.count_sent<Interrupt>(0), 1u);
  for (uint32_t rank : {0, 1}) world.done(rank, kept);
  EXPECT_EQ(world.ended(kept), SK_CELL_OK);
}

TEST(ControllerCancel, TheFirstThatWaitsForRanksMakesRoom) {
  World world(2);
  world.join_all();
  world.die(1);
  world.ask(kAskRevive);
  const uint64_t all = world.execute(), alive = world.execute("0");
  EXPECT_EQ(world.count_sent<Execute>(0), 0u);
  world.controller.on_session_message(Interrupt{all, 0}, world.now);
  EXPECT_EQ(world.ended(all), SK_CELL_ABORTED);
  ASSERT_EQ(world.count_sent<Execute>(0), 1u);
  EXPECT_EQ(world.last_sent<Execute>(0)->cell, alive);
}

}  // namespace
}  // namespace sk::control
