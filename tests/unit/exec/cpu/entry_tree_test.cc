// Ranks that enter calls along trees of every depth: nobody is through before all have come, and
// all learn alike whether all called the same.
#include "lib/exec/cpu/entry_tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "transport/bootstrap/bootstrap.h"
#include "transport/shm/shm.h"

namespace sk::cpu {
namespace {

TEST(TreePlace, EveryRankButTheRootIsBelowOneOther) {
  for (const uint32_t ranks : {1u, 2u, 65u, 200u, 600u}) {
    for (const uint32_t arity : {1u, 2u, 8u, 512u}) {
      std::set<uint32_t> below;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const TreePlace place(rank, ranks, arity);
        EXPECT_EQ(place.is_root, rank == 0);
        EXPECT_LE(place.children, arity);
        for (uint32_t i = 0; i < place.children; ++i) {
          const uint32_t child = place.first_child + i;
          ASSERT_LT(child, ranks);
          EXPECT_TRUE(below.insert(child).second);
          EXPECT_EQ(TreePlace(child, ranks, arity).parent, rank);
        }
      }
      EXPECT_EQ(below.size(), ranks - 1);
      EXPECT_FALSE(below.contains(0));
    }
  }
}

constexpr uint32_t kRanks = 70;
constexpr uint64_t kCalls = 40;

// What each rank is about to enter a call with: most calls are alike, in others one rank differs or
// declines.
uint64_t fingerprint(uint64_t call, uint32_t rank) {
  std::mt19937_64 random(call);
  const bool odd = random() % 2 != 0;
  const bool is_it = odd && random() % kRanks == rank;
  return !is_it ? 100 + call : random() % 2 != 0 ? 7 : 0;
}
bool is_alike(uint64_t call) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (fingerprint(call, rank) != 100 + call) return false;
  }
  return true;
}

void enter_calls(uint32_t rank, uint32_t arity, const std::vector<uint32_t>& host_of,
                 std::atomic<uint64_t>& entered) {
  BootstrapConfig config;
  config.kind = SK_BOOTSTRAP_THREADS;
  config.name = "trees of " + std::to_string(arity);
  config.rank = int(rank);
  config.world_size = int(kRanks);
  Result<std::unique_ptr<Bootstrap>> bootstrap = make_bootstrap(config);
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
  const SegmentLayout layout{.world_size = kRanks, .signal_count_max = 1};
  Result<std::unique_ptr<Endpoint>> endpoint =
      connect_shm(**bootstrap, layout, {.timeout_ns = 60'000'000'000});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
  EntryTree tree(**endpoint, arity);
  tree.follow_hosts(host_of);
  ASSERT_TRUE(tree.used());
  ASSERT_EQ(tree.crosses(), !host_of.empty());
  for (uint64_t call = 1; call <= kCalls; ++call) {
    ++entered;
    ASSERT_TRUE(tree.begin(call, fingerprint(call, rank)).ok());
    while (!tree.step()) {
      ASSERT_LT(tree.awaited(), kRanks);
      ASSERT_FALSE(testing::Test::HasFailure()) << "of a rank that does not go on";
      std::this_thread::yield();
    }
    ASSERT_TRUE(tree.take_status().ok());
    ASSERT_GE(entered.load(), call * kRanks) << "rank " << rank << " is through too early";
    ASSERT_EQ(tree.alike(), is_alike(call)) << "call " << call;
    for (uint32_t peer = 0; peer < kRanks; ++peer) ASSERT_GE((*endpoint)->entered_by(peer), call);
  }
}

void enter_all(uint32_t arity, const std::vector<uint32_t>& host_of) {
  std::atomic<uint64_t> entered{0};
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] { enter_calls(rank, arity, host_of, entered); });
  for (std::thread& rank : ranks) rank.join();
}

TEST(EntryTree, IsABarrierAndTellsAllAlike) {
  for (const uint32_t arity : {2u, 3u, kArityAlone, kArityShared}) enter_all(arity, {});
}

TEST(EntryTree, OfHostsIsABarrierAndTellsAllAlike) {
  for (const uint32_t hosts : {2u, 5u, 60u, 66u, kRanks}) {
    for (const bool in_order : {true, false}) {
      std::vector<uint32_t> host_of(kRanks);
      std::map<uint32_t, uint32_t> first;
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const uint32_t host = in_order ? rank * hosts / kRanks : rank % hosts;
        host_of[rank] = first.emplace(host, rank).first->second;
      }
      enter_all(kArityShared, host_of);
    }
  }
}

}  // namespace
}  // namespace sk::cpu
