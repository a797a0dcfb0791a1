// Pairs whose stream is made when one of them first needs it: nothing is lost meanwhile, ends are
// known to all, and nobody is connected for news alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/transport/stream/sim.h"
#include "tests/unit/transport/stream/traffic.h"
#include "transport/stream/endpoint.h"

namespace sk::stream {
namespace {

using namespace sk::stream::sim;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Settings late_settings(uint64_t seed, Bug bug = Bug::kNone) {
  Settings settings = settings_of(seed);
  settings.late_percent = 70;
  settings.bug = bug;
  return settings;
}

// "": all came as it was sent.
std::string run_traffic(uint64_t seed, Bug bug, uint32_t* made = nullptr) {
  const auto ranks = uint32_t(2 + seed % 6);
  World world(ranks, late_settings(seed, bug), layout_for(ranks));
  Traffic traffic(world, 6);
  for (uint64_t steps = 0; !traffic.done() && steps < 600'000; ++steps) traffic.step();
  if (made != nullptr) *made += world.made_late();
  if (traffic.wrong() > 0) return "wrong";
  if (!traffic.done()) return "stuck";
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (Status status = world.endpoint(rank).check(); !status.ok()) return status.message();
  }
  return "";
}

TEST(LateStreams, NothingIsLostThatWasGivenBefore) {
  uint32_t made = 0;
  for (uint64_t seed = 1; seed <= seeds(); ++seed)
    ASSERT_EQ(run_traffic(seed, Bug::kNone, &made), "") << "seed " << seed;
  EXPECT_GT(made, seeds());  // Of pairs that crossed, one each.
}

TEST(LateStreams, PlantedBugsAreFound) {
  for (const Bug bug : {Bug::kOneSided, Bug::kSwapped}) {
    uint64_t found = 0;
    for (uint64_t seed = 1; seed <= 16 && found == 0; ++seed)
      if (!run_traffic(seed, bug).empty()) found = seed;
    EXPECT_NE(found, 0u) << int(bug);
  }
}

TEST(LateStreams, WhoDiesIsNamedByAll) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed, late_settings(seed));
    auto& [ranks, world, traffic] = scene;
    if (ranks == 2) continue;  // Nobody else could tell that it died.
    const auto victim = uint32_t(world.draw(ranks));
    world.kill(victim);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      const Status status = learn(world, traffic, rank, 1'000'000'000);
      ASSERT_EQ(status.code(), SK_ERR_PEER_LOST) << "seed " << seed;
      ASSERT_THAT(status.message(), HasSubstr(fmt::format("rank {} died", victim))) << seed;
    }
    EXPECT_EQ(traffic.wrong(), 0u);
  }
}

TEST(LateStreams, WhoAbortsIsNamedWithItsReasonByAll) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed, late_settings(seed));
    auto& [ranks, world, traffic] = scene;
    if (ranks == 2) continue;  // It may have nobody to tell.
    const auto aborts = uint32_t(world.draw(ranks));
    world.endpoint(aborts).abort(AbortCause::kAborted, 0, "the soup is cold");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Status status = learn(world, traffic, rank, 30'000'000'000);
      ASSERT_EQ(status.code(), SK_ERR_ABORTED) << "seed " << seed;
      ASSERT_THAT(status.message(), HasSubstr("the soup is cold")) << seed;
    }
  }
}

// Whoever it is between, and whether it had a stream.
TEST(LateStreams, ACutConnectionIsNoDeath) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed, late_settings(seed));
    auto& [ranks, world, traffic] = scene;
    if (traffic.done()) continue;
    const auto a = uint32_t(world.draw(ranks));
    const uint32_t b = (a + 1 + uint32_t(world.draw(ranks - 1))) % ranks;
    world.cut(a, b);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Status status = learn(world, traffic, rank, 20'000'000'000);
      ASSERT_EQ(status.code(), SK_ERR_TRANSPORT) << "seed " << seed << " rank " << rank;
      ASSERT_THAT(status.message(),
                  AnyOf(HasSubstr(fmt::format("rank {} to rank {} at host {}", a, b, b)),
                        HasSubstr(fmt::format("rank {} to rank {} at host {}", b, a, a)),
                        HasSubstr(fmt::format("rank {} does not reach rank {}", a, b)),
                        HasSubstr(fmt::format("rank {} does not reach rank {}", b, a))))
          << seed;
    }
  }
}

// An abort, and for whom somebody waits: told to whom there is a stream, and to nobody else.
TEST(LateStreams, NobodyIsConnectedForNews) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    const uint32_t ranks = 6;
    World world(ranks, late_settings(seed), layout_for(ranks));
    world.endpoint(2).tell_awaited(3);
    const auto pass = [&] {
      for (int i = 0; i < 400; ++i, world.pass(1'000'000))
        for (uint32_t rank = 0; rank < ranks; ++rank) world.endpoint(rank).progress();
    };
    pass();
    world.endpoint(1).abort(AbortCause::kAborted, 1, "enough");
    pass();
    for (uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_THAT(world.endpoint(rank).check().message(), HasSubstr("enough")) << seed;
    EXPECT_EQ(world.made_late(), 0u) << seed;
  }
}

// Though it has never entered anything towards who asks, and calls nothing meanwhile.
TEST(LateStreams, WhoWaitsLongLearnsWhatRanksAreAt) {
  World world(6, late_settings(1), layout_for(6));
  world.endpoint(2).header().entered.store(5);
  EXPECT_EQ(world.endpoint(1).entered_by(2), 0u);
  for (int i = 0; i < 400; ++i, world.pass(1'000'000)) {
    world.endpoint(1).tell_awaited(0);
    for (uint32_t rank = 0; rank < 6; ++rank) world.endpoint(rank).progress();
  }
  EXPECT_EQ(world.endpoint(1).entered_by(2), 5u);
  EXPECT_EQ(world.endpoint(2).awaited_by(1), std::optional(0u));
  EXPECT_EQ(world.made_late(), 0u);
}

// Of two ranks, by a wire that is not there yet.
struct Two {
  explicit Two(uint64_t seed, Bug bug = Bug::kNone)
      : world(2, settings(seed, bug), layout_for(2)) {}
  static Settings settings(uint64_t seed, Bug bug) {
    Settings settings = late_settings(seed, bug);
    settings.late_percent = 100;
    settings.room_bytes = settings.piece_bytes_max = 1 << 20;
    return settings;
  }
  uint64_t place() { return world.endpoint(0).layout().heap_offset(); }
  void pass(uint64_t steps, uint32_t rank) {
    for (; steps > 0; --steps, world.pass(100'000)) world.endpoint(rank).progress();
  }
  World world;
};

TEST(LateStreams, WhatWasPutComesThoughTheSenderHasLeft) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Two two(seed);
    const std::vector<std::byte> source(1 + two.world.draw(1'000), std::byte{7});
    Session& session = two.world.endpoint(1).session(0);
    ASSERT_TRUE(session.put({two.place()}, source.data(), source.size(), 3, 1).ok());
    EXPECT_FALSE(session.connected());
    // In one thread the other side must have taken what it is sent before it can be drained.
    for (int i = 0; i < 20; ++i, two.world.pass(1'000'000)) two.world.endpoint(1).progress();
    two.world.leave(1);
    HostsEndpoint& endpoint = two.world.endpoint(0);
    for (int i = 0; i < 2'000 && endpoint.signals()[3].value.load() == 0; ++i) {
      ASSERT_TRUE(endpoint.check().ok()) << seed;
      two.world.pass(1'000'000);
    }
    EXPECT_EQ(memcmp(endpoint.segment() + two.place(), source.data(), source.size()), 0) << seed;
  }
}

TEST(LateStreams, WhoHasLeftBeforeItWasDialledRefuses) {
  Two two(1);
  two.world.leave(1);
  HostsEndpoint& endpoint = two.world.endpoint(0);
  ASSERT_TRUE(endpoint.session(1).post(3, 1).ok());
  Status status;
  for (int i = 0; i < 1'000 && status.ok(); ++i, two.world.pass(1'000'000))
    status = endpoint.check();
  EXPECT_EQ(status.code(), SK_ERR_PEER_LOST);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 at host 1 does not listen any more"));
}

TEST(LateStreams, WhetherItIsGoneADialTells) {
  Two two(1);
  EXPECT_FALSE(two.world.endpoint(0).gone(1));
  two.pass(500, 0);
  EXPECT_FALSE(two.world.endpoint(0).gone(1));
  Two other(2);
  other.world.kill(1);
  for (int i = 0; i < 1'000 && !other.world.endpoint(0).gone(1); ++i) other.world.pass(1'000'000);
  EXPECT_TRUE(other.world.endpoint(0).gone(1));
  EXPECT_FALSE(other.world.endpoint(0).unreachable(1));
}

// While it is dialled. Nobody says that it died, but where it does not wait for who is half in.
bool is_said_to_have_died(uint64_t seed, Bug bug) {
  Two two(seed, bug);
  EXPECT_TRUE(two.world.endpoint(0).session(1).post(3, 1).ok());
  two.pass(two.world.draw(20), 0);
  two.world.leave(1);
  Status status;
  EntrySlot entry = {};
  EXPECT_TRUE(two.world.endpoint(0).session(1).enter(entry, kCollectiveLane, 1).ok());
  for (int i = 0; i < 2'000 && status.ok(); ++i, two.world.pass(1'000'000))
    status = two.world.endpoint(0).check();
  EXPECT_EQ(status.code(), SK_ERR_PEER_LOST) << seed;
  return status.message().find("died") != std::string::npos;
}

TEST(LateStreams, WhoLeavesIsNeverSaidToHaveDied) {
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= 4 * seeds(); ++seed) {
    EXPECT_FALSE(is_said_to_have_died(seed, Bug::kNone)) << seed;
    found += is_said_to_have_died(seed, Bug::kUnsettled) ? 1 : 0;
  }
  EXPECT_GT(found, 0u);
}

TEST(LateStreams, BehindAnEndNothingThatWaitsIsSent) {
  Two two(1);
  HostsEndpoint& a = two.world.endpoint(0);
  std::vector<std::byte> source(250'000);
  Result<Sent> sent = a.session(1).put({two.place()}, source.data(), source.size(), 3, 1);
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(*sent, Sent::kLater);
  a.abort(AbortCause::kAborted, 0, "enough");
  EXPECT_EQ(a.check().code(), SK_ERR_ABORTED);
  EXPECT_EQ(a.session(1).sent(), a.session(1).taken());
}

}  // namespace
}  // namespace sk::stream
