#include "transport/stream/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>

#include "tests/unit/transport/stream/sim.h"
#include "tests/unit/transport/stream/traffic.h"

namespace sk::stream {
namespace {

using ::testing::HasSubstr;
using namespace sk::stream::sim;

TEST(HostsEndpoint, BytesComeBeforeTheirSignals) {
  std::map<Sent, int> answers;
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    const auto ranks = uint32_t(2 + seed % 6);
    sim::World world(ranks, settings_of(seed), layout_for(ranks));
    Traffic traffic(world, 6);
    uint64_t steps = 0;
    while (!traffic.done() && ++steps < 20'000'000) traffic.step();
    ASSERT_TRUE(traffic.done()) << "seed " << seed;
    ASSERT_EQ(traffic.wrong(), 0u) << "seed " << seed;
    for (const auto& [sent, count] : traffic.answers) answers[sent] += count;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Status status = world.endpoint(rank).check();
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    }
  }
  EXPECT_GT(answers[Sent::kNow], 0);
  EXPECT_GT(answers[Sent::kLater], 0);
}

TEST(HostsEndpoint, WhoDiesIsNamedByAll) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed);
    auto& [ranks, world, traffic] = scene;
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

TEST(HostsEndpoint, WhoAbortsIsNamedWithItsReasonByAll) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed);
    auto& [ranks, world, traffic] = scene;
    const auto aborts = uint32_t(world.draw(ranks));
    world.endpoint(aborts).abort(AbortCause::kAborted, 0, "the soup is cold");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Status status = learn(world, traffic, rank, 30'000'000'000);
      ASSERT_EQ(status.code(), SK_ERR_ABORTED) << "seed " << seed;
      ASSERT_THAT(status.message(), HasSubstr(fmt::format("rank {} has", aborts))) << seed;
      ASSERT_THAT(status.message(), HasSubstr("the soup is cold")) << seed;
    }
  }
}

// For whom a rank waits the others know once it has told, until it tells that it waits no more.
TEST(HostsEndpoint, AllKnowForWhomARankWaitsLong) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    const auto ranks = uint32_t(2 + seed % 6);
    sim::World world(ranks, settings_of(seed), layout_for(ranks));
    Traffic traffic(world, 6);
    const auto waits = uint32_t(world.draw(ranks)), late = (waits + 1) % ranks;
    for (const std::optional<uint32_t> told : {std::optional(late), std::optional<uint32_t>()}) {
      world.endpoint(waits).tell_awaited(told);
      const auto knows = [&](uint32_t rank) {
        return rank == waits || world.endpoint(rank).awaited_by(waits) == told;
      };
      uint32_t known = 0;
      for (uint64_t steps = 0; known < ranks && steps < 20'000'000; ++steps) {
        traffic.step();
        known += knows(known);
      }
      ASSERT_EQ(known, ranks) << "seed " << seed;
    }
    for (uint64_t steps = 0; !traffic.done() && steps < 20'000'000; ++steps) traffic.step();
    ASSERT_TRUE(traffic.done()) << "seed " << seed;
    ASSERT_EQ(traffic.wrong(), 0u) << "seed " << seed;
  }
}

// Both ends of a cut connection say so, and tell the others; nobody is said to have died.
TEST(HostsEndpoint, ACutConnectionIsNoDeath) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    Scene scene(seed);
    auto& [ranks, world, traffic] = scene;
    const auto a = uint32_t(world.draw(ranks));
    const uint32_t b = (a + 1 + uint32_t(world.draw(ranks - 1))) % ranks;
    world.cut(a, b);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Status status = learn(world, traffic, rank, 10'000'000'000);
      ASSERT_EQ(status.code(), SK_ERR_TRANSPORT) << "seed " << seed << " rank " << rank;
      const std::string one = fmt::format("of rank {} to rank {} at host {} was lost", a, b, b);
      const std::string other = fmt::format("of rank {} to rank {} at host {} was lost", b, a, a);
      ASSERT_THAT(status.message(), ::testing::AnyOf(HasSubstr(one), HasSubstr(other))) << seed;
    }
  }
}

TEST(HostsEndpoint, WhatWasPutComesThoughTheSenderHasLeft) {
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    sim::Settings settings = settings_of(seed);
    settings.room_bytes = settings.piece_bytes_max = 1 << 20;
    sim::World world(2, settings, layout_for(2));
    std::vector<std::byte> source(world.draw(200'000));
    for (std::byte& each : source) each = std::byte(world.draw(256));
    const uint64_t place = world.endpoint(0).layout().heap_offset();
    ASSERT_TRUE(world.endpoint(1).session(0).put({place}, source.data(), source.size(), 3, 1).ok());
    world.leave(1);
    HostsEndpoint& endpoint = world.endpoint(0);
    while (endpoint.signals()[3].value.load() == 0) {
      ASSERT_TRUE(endpoint.check().ok());
      world.pass(100'000);
    }
    EXPECT_EQ(memcmp(endpoint.segment() + place, source.data(), source.size()), 0);
    // It is missed only by who needs it.
    ASSERT_TRUE(endpoint.check().ok());
    EntrySlot entry = {};
    ASSERT_TRUE(endpoint.session(1).enter(entry, kCollectiveLane, 1).ok());
    const Status status = endpoint.check();
    EXPECT_EQ(status.code(), SK_ERR_PEER_LOST);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 has freed the communicator"));
  }
}

TEST(HostsEndpoint, WhoLeavesIsNeverSaidToHaveDied) {
  for (uint32_t ranks = 2; ranks < 9; ++ranks) {
    sim::World world(ranks, {}, layout_for(ranks));
    world.leave(ranks - 1);
    HostsEndpoint& endpoint = world.endpoint(0);
    EntrySlot entry = {};
    ASSERT_TRUE(endpoint.session(ranks - 1).enter(entry, kCollectiveLane, 1).ok());
    Status status;
    for (int i = 0; i < 1'000 && status.ok(); ++i, world.pass(1'000'000)) status = endpoint.check();
    EXPECT_THAT(status.message(),
                HasSubstr(fmt::format("rank {} has freed the communicator", ranks - 1)));
  }
}

// Behind an end nothing is borrowed any more, whoever puts.
TEST(HostsEndpoint, APutBehindAnEndReadsNothing) {
  sim::World world(2, {.room_bytes = 1000}, layout_for(2));
  HostsEndpoint& a = world.endpoint(0);
  a.abort(AbortCause::kAborted, 0, "enough");
  EXPECT_EQ(a.check().code(), SK_ERR_ABORTED);
  std::vector<std::byte> source(250'000);
  Result<Sent> sent = a.session(1).put({a.layout().heap_offset()}, source.data(), 250'000, 3, 1);
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(*sent, Sent::kNow);
  EXPECT_EQ(a.session(1).sent(), a.session(1).taken());
}

// Behind an end no memory of a call is touched: its source may be gone, and what comes late is not
// stored.
TEST(HostsEndpoint, BehindAnEndNoMemoryIsTouched) {
  sim::World world(2, {.room_bytes = 1000}, layout_for(2));
  HostsEndpoint &a = world.endpoint(0), &b = world.endpoint(1);
  const uint64_t place = a.layout().heap_offset();
  auto source = std::make_unique<std::vector<std::byte>>(250'000, std::byte{7});
  Result<Sent> sent = a.session(1).put({place}, source->data(), source->size(), 3, 1);
  ASSERT_TRUE(sent.ok());
  ASSERT_EQ(*sent, Sent::kLater);
  for (int i = 0; i < 20; ++i, world.pass(1'000'000)) {
    a.progress();
    b.progress();
  }
  a.abort(AbortCause::kAborted, 0, "enough");
  EXPECT_EQ(a.check().code(), SK_ERR_ABORTED);
  EXPECT_EQ(a.session(1).sent(), a.session(1).taken());
  source.reset();  // AddressSanitizer sees who still reads it.
  std::byte* there = b.segment() + place;
  Status heard;
  for (int i = 0; i < 10'000 && heard.ok(); ++i, world.pass(1'000'000)) {
    a.progress();
    heard = b.check();
  }
  EXPECT_EQ(heard.code(), SK_ERR_ABORTED);
  EXPECT_THAT(heard.message(), HasSubstr("enough"));
  EXPECT_EQ(b.signals()[3].value.load(), 0u);
  memset(there, 1, 250'000);
  ASSERT_TRUE(a.session(1).put({place}, there, 100, 3, 1).ok());
  for (int i = 0; i < 100; ++i, world.pass(1'000'000)) {
    a.progress();
    b.progress();
  }
  EXPECT_EQ(b.signals()[3].value.load(), 0u);
  EXPECT_TRUE(
      std::all_of(there, there + 250'000, [](std::byte each) { return each == std::byte{1}; }));
}

TEST(HostsEndpoint, NoMoreThanSomePutsWait) {
  sim::World world(2, {.room_bytes = 100}, layout_for(2));
  std::vector<std::byte> source(20'000);
  Session& session = world.endpoint(0).session(1);
  const uint64_t place = world.endpoint(0).layout().heap_offset();
  uint32_t taken = 0;
  for (;; ++taken) {
    Result<Sent> sent = session.put({place}, source.data(), source.size(), 3, 1);
    ASSERT_TRUE(sent.ok());
    if (*sent == Sent::kAgain) break;
    ASSERT_LE(taken, Channel::kBorrowedMax);
  }
  EXPECT_EQ(taken, Channel::kBorrowedMax);
  // Small ones find room until so much waits.
  uint64_t copied = 0;
  for (;; copied += 10'000) {
    Result<Sent> sent = session.put({place}, source.data(), 10'000, 3, 1);
    ASSERT_TRUE(sent.ok());
    if (*sent == Sent::kAgain) break;
    ASSERT_LE(copied, 2 * Channel::kCopiedBytesMax);
  }
  EXPECT_GE(copied, Channel::kCopiedBytesMax - 100'000);
  const uint32_t all = taken + uint32_t(copied / 10'000);
  for (int i = 0; i < 2'000'000 && world.endpoint(1).signals()[3].value.load() < all; ++i) {
    world.endpoint(0).progress();
    world.endpoint(1).progress();
    world.pass(1'000'000);
  }
  EXPECT_EQ(world.endpoint(1).signals()[3].value.load(), all);
}

TEST(HostsEndpoint, SessionsRefuseWhatLiesOutside) {
  sim::World world(2, {}, layout_for(2));
  Session& session = world.endpoint(0).session(1);
  const uint64_t end = world.endpoint(0).layout().bytes();
  std::byte byte{};
  EXPECT_EQ(session.put({end}, &byte, 1, 0, 1).status().code(), SK_ERR_INTERNAL);
  EXPECT_EQ(session.put({UINT64_MAX}, &byte, 1, 0, 1).status().code(), SK_ERR_INTERNAL);
  EXPECT_EQ(session.put({0}, &byte, 1, 1'000'000, 1).status().code(), SK_ERR_INTERNAL);
  EXPECT_EQ(session.post(1'000'000, 1).code(), SK_ERR_INTERNAL);
  EXPECT_TRUE(session.put({end - 1}, &byte, 1, 0, 1).ok());
}

}  // namespace
}  // namespace sk::stream
