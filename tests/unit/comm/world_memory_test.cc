#include "lib/comm/world_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/comm/limits.h"
#include "lib/exec/cpu/executor.h"

namespace sk {
namespace {

constexpr uint64_t kStaging = 2 << 20;

struct World {
  explicit World(size_t ranks) : facts(ranks), host_of(ranks) {
    for (RankFacts& each : facts) each.staging_bytes = kStaging;
  }
  Status check() const { return check_memory(facts, host_of); }
  std::vector<RankFacts> facts;
  std::vector<int> host_of;
};

uint64_t whole(uint32_t ranks) { return ranks * connected_bytes(ranks, kStaging); }

TEST(WorldMemory, CountsWhatEachRankCommits) {
  const SegmentLayout layout = control_layout(200);
  EXPECT_EQ(connected_bytes(200, kStaging), layout.control_bytes() + kStaging / 64);
  EXPECT_EQ(connected_bytes(64, kStaging), control_layout(64).control_bytes() + kStaging);
  EXPECT_GE(layout.control_bytes(), uint64_t{layout.signal_count_max} * sizeof(SignalWord));
}

// Less than a page for each pair of ranks; of many, with all that a rank has.
TEST(WorldMemory, OfSignalsAndEntriesGrowsWithThePairs) {
  for (const uint32_t ranks : {33u, 256u, 4096u})
    EXPECT_LE(control_layout(ranks).control_bytes(), uint64_t{ranks} * 4096);
  for (const uint32_t ranks : {256u, 4096u})
    EXPECT_LE(connected_bytes(ranks, cpu::staging_bytes()), uint64_t{ranks} * 4096);
}

// What is handed over whole fits into staging areas of every size that there is (eight at each
// rank).
TEST(WorldMemory, StagingHoldsWhatIsHandedOverWhole) {
  for (const uint32_t ranks : {2u, 3u, 64u, 65u, 256u, 4096u}) {
    for (const uint32_t cores : {1u, 10'000u}) {
      Target target{.world_size = ranks, .workers = 1, .cores = cores};
      tune(target, 32 << 20);
      const uint64_t area = staging_in(ranks, cpu::staging_bytes()) / 8;
      EXPECT_LE(target.one_shot_bytes, area) << ranks;
      EXPECT_LE(target.one_shot_symmetric_bytes, area) << ranks;
    }
  }
}

TEST(WorldMemory, EverythingFitsWhereNothingIsKnown) { EXPECT_TRUE(World(4096).check().ok()); }

TEST(WorldMemory, OneByteDecides) {
  World world(200);
  for (RankFacts& each : world.facts) each.machine_left = whole(200);
  EXPECT_TRUE(world.check().ok());
  world.facts[77].machine_left -= 1;  // The least of what its ranks have seen counts.
  const Status refused = world.check();
  EXPECT_EQ(refused.code(), SK_ERR_NO_MEMORY);
  const std::string& text = refused.message();
  EXPECT_NE(text.find(fmt::format("{} MiB for the 200", whole(200) >> 20)), std::string::npos)
      << text;
  EXPECT_NE(text.find("the host of rank 0 has"), std::string::npos) << text;
  EXPECT_NE(text.find("start at most 199 ranks"), std::string::npos) << text;
}

TEST(WorldMemory, AControlGroupCountsForItsOwnRanks) {
  World world(64);
  for (size_t rank = 0; rank < 64; ++rank) {
    MemoryRoom room;
    room.machine = whole(64);
    room.group = whole(64) / 2;
    room.group_limit = rank < 32 ? "/sys/fs/cgroup/a/memory.max" : "/sys/fs/cgroup/b/memory.max";
    tell_room(room, world.facts[rank]);
  }
  EXPECT_TRUE(world.check().ok()) << world.check().message();
  for (RankFacts& each : world.facts) {
    MemoryRoom room;
    room.machine = whole(64);
    room.group = whole(64) / 2;
    room.group_limit = "/sys/fs/cgroup/a/memory.max";
    tell_room(room, each);
  }
  const Status refused = world.check();
  EXPECT_EQ(refused.code(), SK_ERR_NO_MEMORY);
  EXPECT_NE(refused.message().find("(/sys/fs/cgroup/a/memory.max)"), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("raise that limit"), std::string::npos) << refused.message();
}

TEST(WorldMemory, HostsCountApart) {
  World world(64);
  for (size_t rank = 32; rank < 64; ++rank) world.host_of[rank] = 32;
  for (RankFacts& each : world.facts) each.machine_left = whole(64) / 2;
  EXPECT_TRUE(world.check().ok());
  world.facts[40].machine_left -= 1;
  EXPECT_NE(world.check().message().find("the host of rank 32 has"), std::string::npos);
}

TEST(WorldMemory, ALongNameOfALimitKeepsItsEnd) {
  RankFacts facts;
  MemoryRoom room;
  room.group = 5;
  room.group_limit = "/sys/fs/cgroup/" + std::string(200, 'x') + "/memory.max";
  tell_room(room, facts);
  EXPECT_EQ(std::string(facts.group_limit), room.group_limit.substr(room.group_limit.size() - 95));
}

}  // namespace
}  // namespace sk
