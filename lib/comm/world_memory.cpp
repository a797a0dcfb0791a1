#include "lib/comm/world_memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "lib/exec/executor.h"

namespace sk {
namespace {

constexpr uint64_t kWorthAsking = uint64_t(64) << 20;

// What several ranks of a host draw from: the machine, or one control group.
struct Pool {
  uint64_t left = UINT64_MAX;
  uint32_t ranks = 0;
};

std::string mib(uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

// The most ranks that could be connected there, if all of a world were.
uint32_t ranks_that_fit(uint64_t left, uint32_t world_size, uint64_t staging_bytes) {
  uint32_t fit = world_size;
  while (fit > 1 && fit * connected_bytes(fit, staging_bytes) > left) --fit;
  return fit;
}

Status too_much(const Pool& pool, const std::string& group, uint32_t world_size, int host,
                uint64_t each, uint64_t staging_bytes) {
  const std::string where = group.empty() ? fmt::format("the host of rank {}", host)
                                          : fmt::format("their control group ({})", group);
  const uint32_t fit = ranks_that_fit(pool.left, world_size, staging_bytes);
  return error(
      SK_ERR_NO_MEMORY,
      "connecting {} ranks takes {} of memory for each, {} for the {} there, and {} has {} "
      "left: start at most {} ranks, or {}",
      world_size, mib(each), mib(each * pool.ranks), pool.ranks, where, mib(pool.left), fit,
      group.empty() ? "free memory there" : "raise that limit");
}

}  // namespace

SegmentLayout control_layout(uint32_t world_size) {
  SegmentLayout layout;
  layout.world_size = world_size;
  layout.signal_count_max = world_size * signals_per_edge(world_size);
  return layout;
}

uint64_t connected_bytes(uint32_t world_size, uint64_t staging_bytes) {
  return control_layout(world_size).control_bytes() + staging_in(world_size, staging_bytes);
}

bool is_worth_asking(uint32_t world_size, uint64_t staging_bytes) {
  return world_size * connected_bytes(world_size, staging_bytes) >= kWorthAsking;
}

void tell_room(const MemoryRoom& room, RankFacts& facts) {
  facts.machine_left = room.machine;
  facts.group_left = room.group;
  const std::string& name = room.group_limit;
  const size_t most = sizeof(facts.group_limit) - 1;
  const size_t from = name.size() - std::min(name.size(), most);
  std::memcpy(facts.group_limit, name.data() + from, name.size() - from);
}

Status check_memory(std::span<const RankFacts> all, std::span<const int> host_of) {
  std::map<std::tuple<int, std::string>, Pool> pools;  // By host and group; "": the machine.
  uint64_t staging_bytes = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const RankFacts& facts = all[rank];
    staging_bytes = std::max(staging_bytes, facts.staging_bytes);
    const auto draw = [&](const std::string& group, uint64_t left) {
      Pool& pool = pools[{host_of[rank], group}];
      pool.left = std::min(pool.left, left);
      ++pool.ranks;
    };
    draw("", facts.machine_left);
    const std::string group(facts.group_limit,
                            strnlen(facts.group_limit, sizeof(facts.group_limit)));
    if (!group.empty()) draw(group, facts.group_left);
  }
  const uint32_t world_size = uint32_t(all.size());
  const uint64_t each = connected_bytes(world_size, staging_bytes);
  for (const auto& [where, pool] : pools) {
    const auto& [host, group] = where;
    if (each * pool.ranks > pool.left)
      return too_much(pool, group, world_size, host, each, staging_bytes);
  }
  return {};
}

}  // namespace sk
