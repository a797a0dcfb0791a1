#include "cuda/exec/watching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace sk::cuda {
namespace {

constexpr const char* kRoles[] = {"fetch", "load", "post", "watchman", "work"};
constexpr const char* kPlaces[kWatchedPlaces] = {"ring_empty",  "ring_full",  "ring_done",
                                                 "stage_empty", "stage_full", "told",
                                                 "pair_done",   "team",       "signal"};

uint32_t role_of(uint32_t warp) { return std::min(warp, kWatchedWorkWarp); }
const char* place_of(uint32_t place) { return place < kWatchedPlaces ? kPlaces[place] : "?"; }

// Alike in all but the block and the time.
using Alike = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;
Alike alike(uint32_t warp, const StuckWarp& stuck) {
  return {role_of(warp), stuck.place, stuck.stage, stuck.parity, stuck.task};
}

std::string what(const Alike& wait) {
  const auto [role, place, stage, parity, task] = wait;
  return fmt::format("{} at {}, stage {}, parity {}, task {}", kRoles[role], place_of(place), stage,
                     parity, task);
}

// By the rate of the block's own clocks.
double waited_ns(const WatchedBlock& block, const StuckWarp& stuck) {
  const auto cycles = double(block.told_cycles - block.begin_cycles);
  const auto ns = double(block.told_ns - block.begin_ns);
  return cycles > 0 ? double(stuck.waited_cycles) * ns / cycles : 0;
}

}  // namespace

Result<std::unique_ptr<Watching>> Watching::begin(const Owner& owner, uint32_t blocks) {
  void* memory = nullptr;
  SK_CUDA_TRY(*owner.driver, cuMemHostAlloc, &memory, blocks * sizeof(WatchedBlock),
              abi::kMemHostPortable | abi::kMemHostDeviceMap);
  std::memset(memory, 0, blocks * sizeof(WatchedBlock));
  return std::unique_ptr<Watching>(new Watching(static_cast<WatchedBlock*>(memory), blocks));
}

void Watching::free(const Owner& owner) { owner.driver->cuMemFreeHost(blocks_); }

std::string who_waits(std::span<const WatchedBlock> blocks, const std::string& on) {
  struct Group {
    uint32_t warps = 0, first_block = 0;
    double longest_ns = 0;
  };
  std::map<Alike, Group> groups;
  for (uint32_t block = 0; block < blocks.size(); ++block) {
    for (uint32_t warp = 0; warp < kWatchedWarps; ++warp) {
      const StuckWarp& stuck = blocks[block].stuck[warp];
      if (stuck.told == 0) continue;
      const double ns = waited_ns(blocks[block], stuck);
      Group& group = groups[alike(warp, stuck)];
      if (group.warps++ == 0 || ns > group.longest_ns) group.first_block = block;
      group.longest_ns = std::max(group.longest_ns, ns);
    }
  }
  if (groups.empty()) return "";
  std::vector<std::pair<Alike, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& left, const auto& right) {
    return left.second.longest_ns > right.second.longest_ns;
  });
  std::vector<std::string> texts;
  for (const auto& [wait, group] : sorted) {
    texts.push_back(fmt::format(
        "{} (block {}{}, {:.0f} ns)", what(wait), group.first_block,
        group.warps > 1 ? fmt::format(", {} warps in all", group.warps) : "", group.longest_ns));
  }
  constexpr size_t kTextsMax = 40;
  const size_t more = texts.size() - std::min(texts.size(), kTextsMax);
  texts.resize(texts.size() - more);
  return fmt::format("a launch on {} hung and was ended; who waited longest first: {}{}", on,
                     fmt::join(texts, "; "), more > 0 ? fmt::format("; {} more", more) : "");
}

std::vector<StallShare> stalls_of(std::span<const WatchedBlock> blocks) {
  double cycles[std::size(kRoles)] = {}, stalled[std::size(kRoles)][kWatchedPlaces] = {};
  for (const WatchedBlock& block : blocks) {
    for (uint32_t warp = 0; warp < kWatchedWarps; ++warp) {
      if (warp == kWatchman) continue;
      cycles[role_of(warp)] += double(block.cycles[warp]);
      for (uint32_t place = 0; place < kWatchedPlaces; ++place)
        stalled[role_of(warp)][place] += double(block.stalled[warp][place]);
    }
  }
  std::vector<StallShare> shares;
  for (uint32_t role = 0; role < std::size(kRoles); ++role)
    for (uint32_t place = 0; place < kWatchedPlaces; ++place)
      if (stalled[role][place] > 0)
        shares.push_back({kRoles[role], kPlaces[place], stalled[role][place] / cycles[role]});
  return shares;
}

FirstTimes first_times_of(std::span<const WatchedBlock> blocks) {
  FirstTimes first;
  const auto earliest = [&](uint64_t WatchedBlock::*time) {
    uint64_t found = 0;
    for (const WatchedBlock& block : blocks)
      if (block.*time != 0 && (found == 0 || block.*time < found)) found = block.*time;
    return found;
  };
  const auto since_begin = [&](uint64_t at) {
    return at > first.begin_ns ? at - first.begin_ns : 0;
  };
  first.begin_ns = earliest(&WatchedBlock::begin_ns);
  first.task_ns = since_begin(earliest(&WatchedBlock::first_task_ns));
  first.stage_ns = since_begin(earliest(&WatchedBlock::first_stage_ns));
  uint64_t end_ns = 0;
  for (const WatchedBlock& block : blocks) end_ns = std::max(end_ns, block.end_ns);
  first.end_ns = since_begin(end_ns);
  return first;
}

}  // namespace sk::cuda
