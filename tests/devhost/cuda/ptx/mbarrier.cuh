// cuda/ptx/mbarrier.cuh on the CPU.
#ifndef SK_CUDA_PTX_MBARRIER_CUH_
#define SK_CUDA_PTX_MBARRIER_CUH_

#include <atomic>
#include <new>
#include <utility>

#include "cuda/ptx/thread.cuh"
#include "tests/devhost/planted.h"

namespace sk::cuda::ptx {

struct MBarrier {
  std::atomic<uint32_t> phase;
  std::atomic<int64_t> missing;  // Of this phase: arrivals, and bytes in the upper half.
  uint32_t count;
};

inline void init(MBarrier& barrier, uint32_t count) {
  if (devhost::planted.own_arrivals_only && count == 16) count = 8;  // Work warps.
  new (&barrier) MBarrier{{0}, {int64_t(count)}, count};
}

// `change` of what is missing; ends the phase when nothing is.
inline void change(MBarrier& barrier, int64_t by) {
  if (barrier.missing.fetch_add(by, std::memory_order_acq_rel) + by != 0) return;
  barrier.missing.store(barrier.count, std::memory_order_relaxed);
  barrier.phase.fetch_add(1, std::memory_order_release);
  barrier.phase.notify_all();
}
// A wait that this thread has put off (planted.own_share_only).
struct PutOff {
  const MBarrier* barrier = nullptr;
  uint32_t parity = 0;
};
inline thread_local PutOff put_off;
inline void wait(const MBarrier& barrier, uint32_t parity);

inline bool loses_arrival() {
  int loser = devhost::loses_arrival_of_warp.load(std::memory_order_relaxed);
  return loser >= 0 && int(devhost::this_warp().index) == loser &&
         devhost::loses_arrival_of_warp.compare_exchange_strong(loser, -1);
}

// With planted.early_done the last of a task's warps lets the post warp go ahead.
inline bool is_last_of_task(const MBarrier& barrier) {
  return devhost::planted.early_done && barrier.count == 9 &&
         barrier.missing.load(std::memory_order_relaxed) == 1;
}

inline void arrive(MBarrier& barrier) {
  if (loses_arrival()) return;
  if (is_last_of_task(barrier)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (const PutOff due = std::exchange(put_off, PutOff{}); due.barrier != nullptr) {
    devhost::this_warp().block->cluster->early_posts.fetch_add(1, std::memory_order_relaxed);
    wait(*due.barrier, due.parity);
  }
  change(barrier, -1);
}
inline void expect_bytes(MBarrier& barrier, uint32_t bytes) {
  barrier.missing.fetch_add(int64_t(bytes) << 32, std::memory_order_acq_rel);
}
inline void complete_bytes(MBarrier& barrier, uint32_t bytes) {
  change(barrier, -(int64_t(bytes) << 32));
}

// The phase under way is not `parity`, so the one before it, which was, has ended.
inline bool try_wait(const MBarrier& barrier, uint32_t parity) {
  return barrier.phase.load(std::memory_order_acquire) % 2 != parity;
}

// The post warp's wait for the eight work warps and the load warp, with planted.early_done.
inline void wait_for_all_but_one(const MBarrier& barrier, uint32_t parity) {
  while (!try_wait(barrier, parity) && barrier.missing.load(std::memory_order_acquire) > 1)
    std::this_thread::yield();
}

inline void wait(const MBarrier& barrier, uint32_t parity) {
  if (devhost::planted.early_done && barrier.count == 9)
    return wait_for_all_but_one(barrier, parity);
  for (;;) {
    const uint32_t phase = barrier.phase.load(std::memory_order_acquire);
    if (phase % 2 != parity) return;
    const devhost::Sleep sleep(const_cast<std::atomic<uint32_t>&>(barrier.phase));
    barrier.phase.wait(phase, std::memory_order_acquire);
  }
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MBARRIER_CUH_
