#include <algorithm>

#include "lib/exec/executor.h"

namespace sk {

uint32_t signals_per_producer(uint32_t world_size) {
  // Planners number signals producer * lanes + lane with at most 17 lanes a queue (a fused GEMM):
  // some 5 queues' worth.
  return std::max(512u, world_size * 96);
}

Ledger::Ledger(uint32_t world_size, uint32_t signals_per_producer)
    : per_producer_(signals_per_producer),
      size_(size_t(world_size) * signals_per_producer),
      base_(zeros(size_)),
      posted_(zeros(size_)) {}

Ledger::Words Ledger::zeros(size_t count) {
  return Words(static_cast<uint64_t*>(std::calloc(count, sizeof(uint64_t))));
}

}  // namespace sk
