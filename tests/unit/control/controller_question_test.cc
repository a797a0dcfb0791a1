// Questions of a cell that was interrupted: whose are asked, and what becomes of the cell
// meanwhile.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

constexpr int64_t kGiveUpNs = ControllerTimers{}.give_up_ns;

class ControllerQuestion : public testing::Test {
 protected:
  ControllerQuestion() {
    world.join_all();
    Execute request;
    request.cell = cell = ++world.cells;
    request.code = "x";
    request.allow_input = true;
    world.controller.on_session_message(request, world.now);
  }
  void press() { world.controller.on_session_message(Interrupt{}, world.now); }
  void ask(uint32_t rank, uint32_t interrupts) {
    world.from(rank, InputRequest{cell, ++questions, "save?", false, false, interrupts});
  }
  // Whether the newest of what was asked and ended is a question.
  bool is_asking() const {
    for (auto event = world.events.rbegin(); event != world.events.rend(); ++event)
      if (event->kind == SK_EVENT_INPUT || event->kind == SK_EVENT_INPUT_END)
        return event->kind == SK_EVENT_INPUT;
    return false;
  }
  void answer() {
    const uint64_t request = world.find(SK_EVENT_INPUT)->reply.request;
    world.controller.on_session_message(InputReply{request, SK_INPUT_TEXT, "y"}, world.now);
  }
  uint32_t told(uint32_t rank) {
    const InputReply* reply = world.last_sent<InputReply>(rank);
    return reply == nullptr ? uint32_t{SK_INPUT_NONE} : reply->state;
  }
  bool is_stuck(uint32_t rank) const { return world.told_stuck(rank); }

  World world{2};
  uint64_t cell = 0;
  uint64_t questions = 0;
};

TEST_F(ControllerQuestion, OneThatWasAskedBeforeTheInterruptIsRefused) {
  press();
  ask(0, 0);
  world.advance(kPromptHoldNs);
  EXPECT_FALSE(is_asking());
  EXPECT_EQ(told(0), uint32_t{SK_INPUT_REFUSED});
  EXPECT_NE(world.last_sent<InputReply>(0)->text.find("interrupted"), std::string::npos);
}

TEST_F(ControllerQuestion, OneAboutTheInterruptIsAskedAndNobodyIsGivenUpMeanwhile) {
  press();
  ask(0, 1);
  world.advance(20 * kGiveUpNs);  // Rank 1 may wait for what rank 0 makes of the answer.
  EXPECT_TRUE(is_asking());
  EXPECT_EQ(world.count_sent<Interrupt>(0), 1u);
  EXPECT_EQ(world.count_sent<Interrupt>(1), 2u);  // The same again: it may not have heard.
  EXPECT_EQ(world.last_sent<Interrupt>(1)->level, 1u);
  answer();
  EXPECT_EQ(told(0), uint32_t{SK_INPUT_TEXT});
  world.advance(20 * kGiveUpNs);  // Or goes on with the cell, for the answer was that.
  EXPECT_FALSE(is_stuck(0) || is_stuck(1));
  world.done(0, cell);
  world.done(1, cell);
  EXPECT_EQ(world.ended(cell), SK_CELL_OK);
}

TEST_F(ControllerQuestion, WhoDoesNotEndWithTheOneThatAskedIsStuck) {
  press();
  ask(0, 1);
  world.advance(20 * kGiveUpNs);
  answer();
  world.done(0, cell, SK_CELL_ERROR);
  world.advance(kGiveUpNs - 10 * kMs);
  EXPECT_FALSE(is_stuck(1));
  world.advance(20 * kMs);
  EXPECT_TRUE(is_stuck(1));
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST_F(ControllerQuestion, APressEndsItAndBeginsAnew) {
  press();
  ask(0, 1);
  world.advance(20 * kGiveUpNs);
  press();
  EXPECT_FALSE(is_asking());
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 0u);
  ask(1, 1);  // Which crosses with it.
  EXPECT_EQ(told(1), uint32_t{SK_INPUT_REFUSED});
  world.advance(kGiveUpNs + 10 * kMs);
  EXPECT_TRUE(is_stuck(0) || is_stuck(1) || world.ended(cell) == SK_CELL_ERROR);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST_F(ControllerQuestion, TheThirdPressEndsACellThatOnlyAsks) {
  for (uint32_t interrupts : {1u, 2u}) {
    press();
    ask(0, interrupts);
    ask(1, interrupts);
    EXPECT_TRUE(is_asking());
  }
  press();
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

TEST_F(ControllerQuestion, AnAnswerSettlesThePressesBeforeIt) {
  for (uint32_t interrupts = 1; interrupts < 6; ++interrupts) {
    press();
    ask(0, interrupts);
    ask(1, interrupts);
    ASSERT_TRUE(is_asking());
    answer();
    EXPECT_EQ(world.ended(cell), 0);
  }
}

TEST_F(ControllerQuestion, ADeathEndsTheCellAndWhatItAsks) {
  press();
  ask(0, 1);
  world.advance(20 * kGiveUpNs);
  ASSERT_TRUE(is_asking());
  world.die(1);
  EXPECT_FALSE(is_asking());
  EXPECT_EQ(world.last_sent<Interrupt>(0)->level, 0u);
  ask(0, 2);
  EXPECT_EQ(told(0), uint32_t{SK_INPUT_REFUSED});
  world.advance(kGiveUpNs);
  EXPECT_EQ(world.ended(cell), SK_CELL_ERROR);
}

// As of a cell that nobody has interrupted.
TEST_F(ControllerQuestion, WhoWaitsInVainForOneThatHasEndedIsToldSo) {
  press();
  world.done(1, cell, SK_CELL_ERROR);
  ask(0, 1);
  world.advance(kPromptHoldNs);
  ASSERT_NE(world.last_sent<Absent>(0), nullptr);
  EXPECT_EQ(world.last_sent<Absent>(0)->groups[0].ranks, std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace sk::control
