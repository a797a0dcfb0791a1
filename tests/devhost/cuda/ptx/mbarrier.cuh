// cuda/ptx/mbarrier.cuh on the CPU.
#ifndef SK_CUDA_PTX_MBARRIER_CUH_
#define SK_CUDA_PTX_MBARRIER_CUH_

#include <atomic>
#include <new>

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

struct MBarrier {
  std::atomic<uint32_t> phase;
  std::atomic<uint32_t> missing;  // Arrivals of this phase still to come.
  uint32_t count;
};

inline void init(MBarrier& barrier, uint32_t count) {
  new (&barrier) MBarrier{{0}, {count}, count};
}

inline void arrive(MBarrier& barrier) {
  if (barrier.missing.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  barrier.missing.store(barrier.count, std::memory_order_relaxed);
  barrier.phase.fetch_add(1, std::memory_order_release);
  barrier.phase.notify_all();
}

// The phase under way is not `parity`, so the one before it, which was, has ended.
inline bool test(const MBarrier& barrier, uint32_t parity) {
  return barrier.phase.load(std::memory_order_acquire) % 2 != parity;
}

inline void wait(const MBarrier& barrier, uint32_t parity) {
  for (;;) {
    const uint32_t phase = barrier.phase.load(std::memory_order_acquire);
    if (phase % 2 != parity) return;
    barrier.phase.wait(phase, std::memory_order_acquire);
  }
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MBARRIER_CUH_
