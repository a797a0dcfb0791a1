// Which pairs are connected from the start: alike from both sides, and of each rank some of each
// other host.
#include "transport/tcp/eager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace sk::tcp {
namespace {

using testing::ElementsAre;

TEST(EagerPeers, SmallWorldsAreConnectedWhole) {
  EXPECT_THAT(eager_peers({0, 0, 2, 2}, 0, 2), ElementsAre(2, 3));
  EXPECT_THAT(eager_peers({0, 0, 2, 2}, 3, 2), ElementsAre(0, 1));
  // Of rank 2 three are on other hosts, so that none of the others are connected whole either.
  EXPECT_THAT(eager_peers({0, 0, 2, 0}, 2, 3), ElementsAre(0, 1, 3));
  EXPECT_THAT(eager_peers({0, 0, 0, 3, 3}, 0, 2), ElementsAre(3));
}

TEST(EagerPeers, OfEqualHostsEachRankHasOneOfEach) {
  EXPECT_THAT(eager_peers({0, 0, 2, 2, 4, 4}, 0, 0), ElementsAre(2, 4));
  EXPECT_THAT(eager_peers({0, 0, 2, 2, 4, 4}, 3, 0), ElementsAre(1, 5));
}

TEST(EagerPeers, AllKnowAlikeAndEachHasSomeOfEachHost) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto ranks = 2 + random() % 40, hosts = 1 + random() % 6;
    std::map<uint32_t, int> first;
    std::vector<int> host_of;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      host_of.push_back(first.emplace(random() % hosts, int(rank)).first->second);
    std::vector<std::vector<uint32_t>> peers;
    for (uint32_t rank = 0; rank < ranks; ++rank) peers.push_back(eager_peers(host_of, rank, 0));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(std::ranges::is_sorted(peers[rank]));
      std::set<int> reached;
      for (const uint32_t peer : peers[rank]) {
        EXPECT_NE(host_of[peer], host_of[rank]);
        EXPECT_TRUE(std::ranges::binary_search(peers[peer], rank));
        reached.insert(host_of[peer]);
      }
      EXPECT_EQ(reached.size(), first.size() - 1);
      const bool is_first = host_of[rank] == int(rank);
      for (const auto& [host, other] : first) {
        if (!is_first || other == int(rank)) continue;
        EXPECT_TRUE(std::ranges::binary_search(peers[rank], uint32_t(other)));
      }
    }
  }
}

}  // namespace
}  // namespace sk::tcp
