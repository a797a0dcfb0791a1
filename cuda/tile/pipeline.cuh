// A ring of stages in shared memory, through which the load warp hands to the work warps what the
// copy engine brings. What lies in a stage is the operation's business: it fills stages and reads
// them. A kernel has one ring, whatever operations it has, and stages go around it in the order of
// the tasks: a task's first stages are filled beside the work on the last ones of the task before,
// though that be of another operation.
//
//   load warp    begin_fill(n), expect(n), then copies that arrive at arrivals(n)
//   work warps   wait_full(n), then release(n) once they read it no more
//
// n counts the stages of all tasks, each party for itself.
#ifndef SK_CUDA_TILE_PIPELINE_CUH_
#define SK_CUDA_TILE_PIPELINE_CUH_

#include "cuda/ptx/bulk.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/watch/waits.cuh"

namespace sk::cuda {

// `sides`: blocks of a cluster whose load warps fill each other's stages, so that a stage is filled
// again only once the work warps of all of them have left it. What the others load may come before
// this one expects it: its own expect() is what the phase cannot end without.
template <uint32_t bytes, uint32_t stages, uint32_t sides = 1>
class Pipeline {
 public:
  static constexpr uint32_t kBytes = bytes, kStages = stages, kSides = sides;
  static_assert(bytes % 1024 == 0, "boxes begin at multiples of 1024 bytes");

  // By one thread, before anything else. `readers`: warps of each side that read a stage.
  SK_DEVICE void init(uint32_t readers) {
    for (uint32_t i = 0; i < stages; ++i) {
      ptx::init(full_[i], 1);
      ptx::init(empty_[i], readers * sides);
    }
  }

  SK_DEVICE std::byte* at(uint32_t n) { return bytes_[n % stages]; }

  // Until nobody reads the n-th stage's place any more.
  SK_DEVICE void begin_fill(uint32_t n) const {
    wait_at(At::kStageEmpty, empty_[n % stages], n / stages % 2 ^ 1, n % stages);
  }
  // By one thread: the stage is full once so many bytes have arrived.
  SK_DEVICE void expect(uint32_t n, uint32_t count) {
    ptx::arrive_expecting(full_[n % stages], count);
  }
  SK_DEVICE ptx::MBarrier& arrivals(uint32_t n) { return full_[n % stages]; }

  SK_DEVICE void wait_full(uint32_t n) const {
    wait_at(At::kStageFull, full_[n % stages], n / stages % 2, n % stages);
  }
  // By whole warps, each once.
  SK_DEVICE void release(uint32_t n) {
    ptx::sync_warp();
    if (!ptx::one_lane()) return;
    if constexpr (sides == 1) {
      ptx::arrive(empty_[n % stages]);
    } else {
#pragma unroll
      for (uint32_t side = 0; side < sides; ++side)
        ptx::arrive_there(ptx::there(&empty_[n % stages], side));
    }
  }

 private:
  alignas(1024) std::byte bytes_[stages][bytes];
  ptx::MBarrier full_[stages];   // By the copy engine.
  ptx::MBarrier empty_[stages];  // By each work warp, of all sides.
};

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_PIPELINE_CUH_
