// When a rank that says nothing is taken for dead, and when its silence is our own.
#include "tests/unit/control/controller_world.h"

namespace sk::control {
namespace {

constexpr int64_t kSilenceNs = AgentTimers{}.silence_dead_ns;

// The time passes at once, as for one who was kept from looking at it.
void oversleep(World& world, int64_t ns) {
  world.now += ns;
  world.controller.on_time(world.now);
}

TEST(ControllerSilence, ARankThatSaysNothingIsKilled) {
  World world(2);
  world.join_all();
  world.advance(kSilenceNs - 1);
  world.from(1, Heartbeat{});
  EXPECT_FALSE(world.was_killed(0));
  world.advance(1);
  EXPECT_TRUE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
}

TEST(ControllerSilence, ARankWhoseWordsAreNotReadYetIsNotSilent) {
  World world(2);
  world.join_all();
  world.unread = {1};
  world.advance(3 * kSilenceNs);
  EXPECT_TRUE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
  world.unread.clear();  // From here on it has said nothing.
  world.advance(kSilenceNs);
  EXPECT_TRUE(world.was_killed(1));
}

TEST(ControllerSilence, ALongMessageThatStillComesIsNoSilence) {
  World world(2);
  world.join_all();
  for (int i = 0; i < 3; ++i) {
    world.advance(kSilenceNs - 1);
    world.controller.agent().on_bytes(1, world.now);
  }
  EXPECT_TRUE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
}

TEST(ControllerSilence, ARankThatGetsNoProcessorIsNotSilent) {
  World world(2);
  world.join_all();
  world.starved = {1};
  world.advance(3 * kSilenceNs);
  EXPECT_TRUE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
  world.starved.clear();
  world.advance(kSilenceNs);
  EXPECT_TRUE(world.was_killed(1));
}

TEST(ControllerSilence, WhoWasKeptFromListeningBlamesNobody) {
  World world(2);
  world.join_all();
  oversleep(world, 2 * kSilenceNs);
  EXPECT_FALSE(world.was_killed(0));
  EXPECT_FALSE(world.was_killed(1));
  world.from(1, Heartbeat{});
  world.advance(kSilenceNs - 1);  // The silence counts from when it was listened to again.
  EXPECT_FALSE(world.was_killed(0));
  world.advance(1);
  EXPECT_TRUE(world.was_killed(0));
}

// Others are heard all the while, each later than it should be.
TEST(ControllerSilence, ManySmallDelaysAreNoSilenceEither) {
  World world(2);
  world.join_all();
  for (int64_t slept = 0; slept < 2 * kSilenceNs; slept += 2 * kSecond) {
    const int64_t began_ns = world.now;
    world.now += 2 * kSecond;  // One turn, which took that long.
    world.controller.agent().was_busy(began_ns, world.now);
    world.controller.on_time(world.now);
  }
  EXPECT_FALSE(world.was_killed(0));
  world.advance(kSilenceNs);
  EXPECT_TRUE(world.was_killed(0));
}

TEST(ControllerSilence, ARankThatJoinsLateBecauseOfUsMayStillJoin) {
  World world(2);
  const int64_t start_ns = AgentTimers{}.start_timeout_ns;
  world.join(0);
  world.unread = {1};
  oversleep(world, start_ns + 10 * kSecond);
  EXPECT_FALSE(world.was_killed(1));
  world.unread.clear();
  world.join(1);
  EXPECT_NE(world.execute(), 0u);
  EXPECT_EQ(world.count_sent<Execute>(1), 1u);
}

}  // namespace
}  // namespace sk::control
