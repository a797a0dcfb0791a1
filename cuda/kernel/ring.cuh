// Tasks on their way from the warp that fetches them to the warps that do them.
#ifndef SK_CUDA_KERNEL_RING_CUH_
#define SK_CUDA_KERNEL_RING_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/mbarrier.cuh"

namespace sk::cuda {

inline constexpr uint32_t kRingSlots = 4;

// A task whose waits are met, with all that it needs at hand.
struct FetchedTask {
  Task task;
  uint32_t index;              // In the rank's part.
  bool stop;                   // No task: the queue has ended, or the run has failed.
  uint64_t wait_ns, start_ns;  // Only with a trace.
  uint64_t run;
  TaskRecord record;
  std::byte* addresses[kPointersMax];  // Of all regions, one after the other; offsets added.
};

// Between two blocks that serve one queue (pair.cuh).
struct PairSlots {
  ptx::MBarrier told[kRingSlots];  // In the other block, by the leader's fetch warp.
  ptx::MBarrier done[kRingSlots];  // In the leader, by the other's post warp.
  uint32_t stop[kRingSlots];       // What the other is told.
};

struct Ring {
  BlockRole role;
  FetchedTask slots[kRingSlots];
  ptx::MBarrier full[kRingSlots];   // By the fetch warp.
  ptx::MBarrier done[kRingSlots];   // By each work warp and the load warp: their part is done.
  ptx::MBarrier empty[kRingSlots];  // By the post warp: all writes are there, and posted.
  PairSlots pair;
};

// Slot and phase of the n-th task of a queue.
SK_DEVICE uint32_t slot_of(uint32_t n) { return n % kRingSlots; }
SK_DEVICE uint32_t phase_of(uint32_t n) { return n / kRingSlots % 2; }

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_RING_CUH_
