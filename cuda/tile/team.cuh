// The warps that do a block's tasks together, and what all tiles ask of addresses.
#ifndef SK_CUDA_TILE_TEAM_CUH_
#define SK_CUDA_TILE_TEAM_CUH_

#include "cuda/kernel/task_record.h"
#include "cuda/ptx/thread.cuh"
#include "cuda/watch/waits.cuh"

namespace sk::cuda {

// Consecutive whole warps of a block; those of `sides` blocks share what can be shared out.
struct Team {
  uint32_t first_warp, warps;
  uint32_t barrier;  // Number of the hardware barrier that is theirs, within this block.
  uint32_t side = 0, sides = 1;

  SK_DEVICE uint32_t threads() const { return warps * ptx::kLanes; }
  SK_DEVICE uint32_t warp() const { return ptx::warp() - first_warp; }
  SK_DEVICE void sync() const { meet_team(barrier, threads()); }

  // fn(i) once for each i < count, thread after thread, in all sides together.
  template <typename Fn>
  SK_DEVICE void each(uint64_t count, const Fn& fn) const {
    const uint32_t first = side * threads() + warp() * ptx::kLanes, step = sides * threads();
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l)
      for (uint64_t i = first + ptx::lane(l); i < count; i += step) fn(i);
  }
};

// Of several addresses and their distance from row to row, the low bits, or-ed: which widths they
// allow.
SK_DEVICE uint64_t address_bits(std::byte* const* addresses, uint32_t count, uint64_t pitch,
                                uint32_t rows) {
  uint64_t bits = rows > 1 ? pitch : 0;
  for (uint32_t i = 0; i < count; ++i) bits |= reinterpret_cast<uint64_t>(addresses[i]);
  return bits;
}
SK_DEVICE bool is_aligned(uint64_t bits, uint32_t bytes) { return bits % bytes == 0; }

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_TEAM_CUH_
