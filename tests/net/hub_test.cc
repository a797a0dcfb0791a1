// The links in virtual time: when packets come, in which order, and that none goes uncounted.
#include "tests/net/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/net/traffic.h"

namespace sk::net {
namespace {

constexpr uint32_t kMany = 20'000;

Hub hub_with(const Settings& settings, int hosts = 2) {
  Hub hub(hosts, /*seed=*/1);
  for (int from = 0; from < hosts; ++from) {
    for (int to = 0; to < hosts; ++to) hub.settings(from, to) = settings;
  }
  return hub;
}

TEST(Hub, APacketComesWhenItIsDueAndNotSooner) {
  Hub hub = hub_with({.delay_us = 500});
  EXPECT_EQ(hub.due_ns(), std::nullopt);
  hub.send(0, 1, {1, 2, 3}, 7);
  EXPECT_EQ(hub.due_ns(), 500'007);
  EXPECT_FALSE(hub.take(500'006).has_value());
  const auto arrival = hub.take(500'007);
  ASSERT_TRUE(arrival.has_value());
  EXPECT_EQ(arrival->from, 0);
  EXPECT_EQ(arrival->to, 1);
  EXPECT_EQ(arrival->packet, (Packet{1, 2, 3}));
  EXPECT_FALSE(hub.take(INT64_MAX).has_value());
}

TEST(Hub, SameSeedSameArrivals) {
  const Settings settings = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .jitter_us = 100};
  const std::vector<uint32_t> first = arrivals(settings, 11, kMany);
  EXPECT_EQ(arrivals(settings, 11, kMany), first);
  EXPECT_NE(arrivals(settings, 12, kMany), first);
}

// Loses by how often it was asked, so that a run depends on what was before it.
Fate forgetful(const Settings& settings, uint64_t seed, uint32_t direction, uint64_t number) {
  static uint64_t asked = 0;
  return draw(settings, seed + asked++ / kMany, direction, number);
}

TEST(Hub, APlantedMemoryOfEarlierRunsIsSeen) {
  const Settings settings = {.loss = 0.1};
  EXPECT_NE(arrivals(settings, 11, kMany, forgetful), arrivals(settings, 11, kMany, forgetful));
}

TEST(Hub, LosesAsManyAsSet) {
  for (const double loss : {0.001, 0.05, 0.5}) {
    const uint64_t came = arrivals({.loss = loss}, 3, kMany).size();
    EXPECT_PRED3(is_likely, came, kMany, 1 - loss);
  }
}

Fate lossy(const Settings& settings, uint64_t seed, uint32_t direction, uint64_t number) {
  Settings more = settings;
  more.loss *= 1.5;
  return draw(more, seed, direction, number);
}

TEST(Hub, APlantedLossIsSeen) {
  EXPECT_FALSE(is_likely(arrivals({.loss = 0.05}, 3, kMany, lossy).size(), kMany, 0.95));
}

TEST(Hub, KeepsTheOrderUnlessToldOtherwise) {
  const Settings jittery = {.loss = 0.1, .duplicate = 0.1, .delay_us = 50, .jitter_us = 400};
  EXPECT_TRUE(is_in_order(arrivals(jittery, 5, kMany)));
  Settings reordering = jittery;
  reordering.reorder = 0.01;
  EXPECT_FALSE(is_in_order(arrivals(reordering, 5, kMany)));
}

Fate unruly(const Settings& settings, uint64_t seed, uint32_t direction, uint64_t number) {
  Fate fate = draw(settings, seed, direction, number);
  fate.late = fate.bit % 1000 == 0;
  return fate;
}

TEST(Hub, APlantedReorderingIsSeen) {
  EXPECT_FALSE(is_in_order(arrivals({.delay_us = 50}, 5, kMany, unruly)));
}

TEST(Hub, ALatePacketIsOvertakenByThoseBehindIt) {
  Hub hub = hub_with({.reorder = 1, .delay_us = 10, .reorder_us = 100});
  hub.send(0, 1, numbered(0), 0);
  hub.settings(0, 1).reorder = 0;
  hub.send(0, 1, numbered(1), 50'000);
  hub.send(0, 1, numbered(2), 150'000);
  std::vector<uint32_t> came;
  while (const auto arrival = hub.take(INT64_MAX)) came.push_back(number_of(arrival->packet));
  EXPECT_THAT(came, testing::ElementsAre(1, 0, 2));
  EXPECT_EQ(hub.counts(0, 1).late, 1u);
}

TEST(Hub, AShorterDelayLetsNothingOvertake) {
  Hub hub = hub_with({.delay_us = 1000});
  hub.send(0, 1, numbered(0), 0);
  hub.settings(0, 1).delay_us = 0;
  hub.send(0, 1, numbered(1), 1);
  EXPECT_EQ(number_of(hub.take(INT64_MAX)->packet), 0u);
  EXPECT_EQ(number_of(hub.take(INT64_MAX)->packet), 1u);
}

TEST(Hub, ACopyComesRightBehindItsPacket) {
  Hub hub = hub_with({.duplicate = 1});
  hub.send(0, 1, numbered(8), 0);
  hub.send(0, 1, numbered(9), 0);
  std::vector<uint32_t> came;
  while (const auto arrival = hub.take(0)) came.push_back(number_of(arrival->packet));
  EXPECT_THAT(came, testing::ElementsAre(8, 8, 9, 9));
}

TEST(Hub, ARateSpacesPacketsByTheirSizes) {
  Hub hub = hub_with({.rate_kbit = 8000});  // A byte a microsecond.
  for (const size_t bytes : {1000u, 500u, 1u}) hub.send(0, 1, Packet(bytes), 0);
  std::vector<int64_t> came_us;
  while (const auto due_ns = hub.due_ns()) {
    came_us.push_back(*due_ns / 1000);
    ASSERT_TRUE(hub.take(*due_ns).has_value());
  }
  EXPECT_THAT(came_us, testing::ElementsAre(1000, 1500, 1501));
  hub.send(0, 1, Packet(1), 5'000'000);  // The line was idle meanwhile.
  EXPECT_EQ(hub.due_ns(), 5'001'000);
}

TEST(Hub, AFullQueueDropsWhatComesThen) {
  Hub hub = hub_with({.delay_us = 1, .queue_packets = 3});
  for (uint32_t i = 0; i < 5; ++i) hub.send(0, 1, numbered(i), 0);
  EXPECT_EQ(hub.counts(0, 1).overflowed, 2u);
  while (hub.take(INT64_MAX)) {
  }
  hub.send(0, 1, numbered(5), 0);
  EXPECT_EQ(hub.counts(0, 1).overflowed, 2u);
  EXPECT_EQ(hub.counts(0, 1).delivered, 3u);
}

TEST(Hub, ACutEndsOneDirectionAndWhatIsUnderWay) {
  Hub hub = hub_with({.delay_us = 1}, /*hosts=*/3);
  const auto send_all = [&hub] {
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}, {0, 2}}) hub.send(from, to, {1}, 0);
  };
  const auto delivered = [&hub] {
    while (hub.take(INT64_MAX)) {
    }
    return std::vector<uint64_t>{hub.counts(0, 1).delivered, hub.counts(1, 0).delivered,
                                 hub.counts(0, 2).delivered};
  };
  send_all();
  hub.cut(0, 1);
  send_all();
  EXPECT_THAT(delivered(), testing::ElementsAre(0, 2, 2));
  EXPECT_EQ(hub.counts(0, 1).cut, 2u);
  hub.restore(0, 1);
  send_all();
  EXPECT_THAT(delivered(), testing::ElementsAre(1, 3, 3));
}

TEST(Hub, NothingWaitsForWhatACutHasEnded) {
  Hub hub = hub_with({.delay_us = 1'000'000, .rate_kbit = 1});
  hub.send(0, 1, Packet(1000), 0);
  hub.cut(0, 1);
  hub.restore(0, 1);
  hub.settings(0, 1) = Settings{};
  hub.send(0, 1, {}, 5);
  EXPECT_EQ(hub.due_ns(), 5);
}

TEST(Hub, CountsEveryPacketOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Hub hub(/*hosts=*/3, seed);
    int64_t now_ns = 0;
    for (int step = 0; step < 3000; ++step) {
      const int from = int(random() % 3);
      const int to = (from + 1 + int(random() % 2)) % 3;
      now_ns += int64_t(random() % 100'000);
      switch (random() % 40) {
        case 0:
          hub.settings(from, to) = {.loss = 0.2,
                                    .duplicate = 0.3,
                                    .reorder = 0.1,
                                    .delay_us = int64_t(random() % 500),
                                    .jitter_us = 50,
                                    .rate_kbit = int64_t(random() % 2) * 1000,
                                    .queue_packets = 5};
          break;
        case 1:
          hub.cut(from, to);
          break;
        case 2:
          hub.restore(from, to);
          break;
        case 3:
          if (const auto arrival = hub.take(now_ns)) hub.refuse(arrival->from, arrival->to);
          break;
        default:
          hub.send(from, to, Packet(random() % 100), now_ns);
          while (random() % 2 == 0 && hub.take(now_ns)) {
          }
      }
    }
    while (hub.take(INT64_MAX)) {
    }
    for (int i = 0; i < 9; ++i) {
      const Counts& counts = hub.counts(i / 3, i % 3);
      EXPECT_EQ(counts.sent + counts.duplicated,
                counts.lost + counts.cut + counts.overflowed + counts.delivered + counts.refused);
    }
  }
}

}  // namespace
}  // namespace sk::net
