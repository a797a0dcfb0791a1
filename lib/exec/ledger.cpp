#include <algorithm>

#include "lib/exec/executor.h"

namespace sk {

namespace {

constexpr uint32_t kSmallWorld = 32;
// Planners want at most 17 signals an edge for each queue (a fused GEMM): some 5 queues' worth.
constexpr uint32_t kOfSmallWorlds = 96;
// With the edge's entry slots less than a page, so that a rank of 256, with its header and its
// staging areas, keeps no more than a page for each.
constexpr uint32_t kOfLargeWorlds = 55;

// From there on nothing larger than 2 KB is handed over whole (tune() in lib/comm/limits.cpp), and
// all areas together are smaller than what a rank has of signals.
constexpr uint32_t kStagesLittle = 64;
constexpr uint64_t kShareOfStaging = 64;

}  // namespace

uint64_t staging_in(uint32_t world_size, uint64_t bytes) {
  return world_size > kStagesLittle ? bytes / kShareOfStaging : bytes;
}

uint32_t signals_per_edge(uint32_t world_size) {
  if (world_size > kSmallWorld) return kOfLargeWorlds;
  return std::max(512u / std::max(1u, world_size), kOfSmallWorlds);
}

Ledger::Ledger(uint32_t world_size, uint32_t signals_per_edge)
    : per_edge_(signals_per_edge),
      size_(size_t(world_size) * signals_per_edge),
      base_(zeros(size_)),
      posted_(zeros(size_)) {}

Ledger::Words Ledger::zeros(size_t count) {
  return Words(static_cast<uint64_t*>(std::calloc(count, sizeof(uint64_t))));
}

}  // namespace sk
