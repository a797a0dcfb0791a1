// The warps that do a block's tasks together, and what a tile operation gets.
#ifndef SK_CUDA_TILE_TEAM_CUH_
#define SK_CUDA_TILE_TEAM_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/thread.cuh"
#include "cuda/watch/waits.cuh"
#include "lib/plan/task.h"

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

// A task's operands: pointers of region i begin at first_pointer[i]; offsets are added.
struct TileArgs {
  const Region* regions;
  const int64_t* params;
  std::byte* const* pointers;
  const uint16_t* first_pointer;
  uint32_t region_count;
  const ProductViews* views;

  SK_DEVICE std::byte* pointer(uint32_t region, uint32_t j = 0) const {
    return pointers[first_pointer[region] + j];
  }
  SK_DEVICE std::byte* const* pointers_of(uint32_t region) const {
    return pointers + first_pointer[region];
  }
};

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_TEAM_CUH_
