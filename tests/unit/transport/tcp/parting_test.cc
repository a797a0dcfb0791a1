// Who goes where not all reach each other: so few that the others do, and the same by all ranks.
#include "transport/tcp/parting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sk::tcp {
namespace {

using Pairs = std::set<std::pair<uint32_t, uint32_t>>;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Parting, NobodyGoesWhereAllReachEachOther) { EXPECT_THAT(who_goes({}), IsEmpty()); }

TEST(Parting, OfAPairTheHigherGoesAndNeverRankZero) {
  EXPECT_THAT(who_goes({{1, 2}}), ElementsAre(2));
  EXPECT_THAT(who_goes({{0, 2}}), ElementsAre(2));
}

TEST(Parting, OfTwoHostsOneGoesWhole) {
  EXPECT_THAT(who_goes({{2, 4}, {2, 5}, {3, 4}, {3, 5}}), ElementsAre(4, 5));
}

TEST(Parting, TheSmallerHostGoes) {
  EXPECT_THAT(who_goes({{2, 3}, {2, 4}, {2, 5}}), ElementsAre(2));
}

TEST(Parting, OneWhomNobodyReachesGoesAlone) {
  EXPECT_THAT(who_goes({{0, 3}, {1, 3}, {2, 3}}), ElementsAre(3));
}

TEST(Parting, ThoseThatAreLeftReachEachOther) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t ranks = 2 + random() % 12;
    Pairs apart;
    for (uint32_t lower = 0; lower < ranks; ++lower)
      for (uint32_t higher = lower + 1; higher < ranks; ++higher)
        if (random() % 4 == 0) apart.emplace(lower, higher);
    const std::vector<uint32_t> going = who_goes(apart);
    EXPECT_TRUE(std::ranges::is_sorted(going));
    EXPECT_FALSE(std::ranges::binary_search(going, 0u));
    for (const auto& [lower, higher] : apart) {
      EXPECT_TRUE(std::ranges::binary_search(going, lower) ||
                  std::ranges::binary_search(going, higher));
    }
  }
}

}  // namespace
}  // namespace sk::tcp
