// What is drawn for a packet: nothing but seed, direction and number counts, and shares are kept.
#include "tests/net/fate.h"

#include <gtest/gtest.h>

#include "tests/net/traffic.h"

namespace sk::net {
namespace {

constexpr uint64_t kPackets = 100'000;
constexpr Settings kAll = {.loss = 0.01,
                           .duplicate = 0.02,
                           .reorder = 0.05,
                           .corrupt = 0.2,
                           .corrupt_unseen = 0.5,
                           .jitter_us = 1000};

bool operator==(const Fate& a, const Fate& b) {
  return a.lost == b.lost && a.duplicated == b.duplicated && a.late == b.late &&
         a.corrupted == b.corrupted && a.corrupted_unseen == b.corrupted_unseen &&
         a.jitter_ns == b.jitter_ns && a.bit == b.bit;
}

template <class Predicate>
uint64_t count(uint64_t seed, uint32_t direction, const Predicate& predicate) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < kPackets; ++i) found += predicate(draw(kAll, seed, direction, i));
  return found;
}

TEST(Fate, IsTheSameWheneverItIsAsked) {
  std::vector<Fate> forwards;
  for (uint64_t i = 0; i < 1000; ++i) forwards.push_back(draw(kAll, 7, 1, i));
  for (uint64_t i = 1000; i-- > 0;) EXPECT_TRUE(draw(kAll, 7, 1, i) == forwards[i]) << i;
}

TEST(Fate, SharesAreKept) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (uint32_t direction : {0u, 1u, 14u}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", direction " << direction);
      const auto found = [&](auto member) {
        return count(seed, direction, [member](const Fate& fate) { return fate.*member; });
      };
      EXPECT_PRED3(is_likely, found(&Fate::lost), kPackets, kAll.loss);
      EXPECT_PRED3(is_likely, found(&Fate::duplicated), kPackets, kAll.duplicate);
      EXPECT_PRED3(is_likely, found(&Fate::late), kPackets, kAll.reorder);
      EXPECT_PRED3(is_likely, found(&Fate::corrupted), kPackets, kAll.corrupt);
      EXPECT_PRED3(is_likely, found(&Fate::corrupted_unseen), kPackets, kAll.corrupt_unseen);
      EXPECT_PRED3(is_likely,
                   count(seed, direction, [](const Fate& f) { return f.jitter_ns < 250'000; }),
                   kPackets, 0.25);
    }
  }
}

TEST(Fate, ZeroIsNeverAndOneIsAlways) {
  const Settings always = {
      .loss = 1, .duplicate = 1, .reorder = 1, .corrupt = 1, .corrupt_unseen = 1};
  for (uint64_t i = 0; i < 10'000; ++i) {
    const Fate never = draw(Settings{}, 3, 0, i);
    EXPECT_FALSE(never.lost || never.duplicated || never.late || never.corrupted ||
                 never.corrupted_unseen || never.jitter_ns != 0);
    const Fate all = draw(always, 3, 0, i);
    EXPECT_TRUE(all.lost && all.duplicated && all.late && all.corrupted && all.corrupted_unseen);
  }
}

TEST(Fate, OneSettingLeavesTheOthersDraws) {
  Settings lossier = kAll;
  lossier.loss = 0.9;
  for (uint64_t i = 0; i < 1000; ++i) {
    Fate fate = draw(lossier, 5, 2, i);
    const Fate before = draw(kAll, 5, 2, i);
    EXPECT_TRUE(fate.lost || !before.lost) << "packet " << i << " is saved by more loss";
    fate.lost = before.lost;
    EXPECT_TRUE(fate == before) << i;
  }
}

// Faults that come in step would be bursts, or would hit question and answer alike.
TEST(Fate, IsIndependentOfOtherPacketsDirectionsSeedsAndFaults) {
  Settings settings;
  settings.loss = settings.duplicate = 0.1;
  uint64_t next = 0;
  uint64_t back = 0;
  uint64_t seeds = 0;
  uint64_t faults = 0;
  for (uint64_t i = 0; i < kPackets; ++i) {
    const Fate fate = draw(settings, 1, 0, i);
    next += fate.lost && draw(settings, 1, 0, i + 1).lost;
    back += fate.lost && draw(settings, 1, 1, i).lost;
    seeds += fate.lost && draw(settings, 2, 0, i).lost;
    faults += fate.lost && fate.duplicated;
  }
  EXPECT_PRED3(is_likely, next, kPackets, 0.01);
  EXPECT_PRED3(is_likely, back, kPackets, 0.01);
  EXPECT_PRED3(is_likely, seeds, kPackets, 0.01);
  EXPECT_PRED3(is_likely, faults, kPackets, 0.01);
}

}  // namespace
}  // namespace sk::net
