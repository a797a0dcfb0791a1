// Waiting for words that others write: bounded by the clock and by the abort word, always.
#ifndef SK_CUDA_KERNEL_WAIT_CUH_
#define SK_CUDA_KERNEL_WAIT_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/memory.cuh"
#include "cuda/watch/waits.cuh"

namespace sk::cuda {

// The first verdict wins: later workers fail because the first did, and that is no news.
SK_DEVICE void fail(const LaunchArgs& args, Verdict verdict, const Control& what) {
  if (!ptx::replace_relaxed_sys(&args.control->verdict, uint32_t(Verdict::kRunning),
                                uint32_t(verdict)))
    return;
  Control& control = *args.control;
  control.rank = what.rank;
  control.queue = what.queue;
  control.task = what.task;
  control.peer = what.peer;
  control.signal = what.signal;
  control.wanted = what.wanted;
  control.seen = what.seen;
  ptx::store_release_sys(args.abort, 1);  // Who sees this on the host finds the rest complete.
}

// Looks at the clock, and at whether others have given up, only now and then, for they cost more
// than a look at a signal; at the abort word more seldom, for it is the host's, and the looks of
// all blocks are answered one after the other, a microsecond each.
inline constexpr uint32_t kLooksPerPoll = 64, kLooksPerAbort = 16 * kLooksPerPoll;

// What *word is once it is `wanted` or more; kOver: the launch is over without it. `what` says who
// waits for whom.
inline constexpr uint64_t kOver = UINT64_MAX;
SK_DEVICE uint64_t wait_for(const uint64_t* word, uint64_t wanted, const LaunchArgs& args,
                            Control what) {
  uint64_t began_ns = 0;
  for (uint32_t looks = 0;; ++looks) {
    const uint64_t seen = ptx::load_acquire_gpu(word);
    if (seen >= wanted) return seen;
    if (looks % kLooksPerPoll != kLooksPerPoll - 1) {
      ptx::pause();
      continue;
    }
    if (ptx::load_relaxed_sys(&args.control->verdict) != uint32_t(Verdict::kRunning)) return kOver;
    what.wanted = wanted;
    what.seen = seen;
    if (looks % kLooksPerAbort == kLooksPerAbort - 1 && ptx::load_relaxed_sys(args.abort) != 0) {
      fail(args, Verdict::kAborted, what);
      return kOver;
    }
    const uint64_t now_ns = ptx::timer_ns();
    if (began_ns == 0) began_ns = now_ns;
    if (now_ns - began_ns > args.timeout_ns) {
      fail(args, Verdict::kTimeout, what);
      return kOver;
    }
    wait_goes_on(what.signal);
  }
}
// Whether it has come to that.
SK_DEVICE bool wait_until(const uint64_t* word, uint64_t wanted, const LaunchArgs& args,
                          const Control& what) {
  return wait_for(word, wanted, args, what) != kOver;
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_WAIT_CUH_
