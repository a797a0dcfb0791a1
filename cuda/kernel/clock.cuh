// The clock that traces are written with.
#ifndef SK_CUDA_KERNEL_CLOCK_CUH_
#define SK_CUDA_KERNEL_CLOCK_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/memory.cuh"

namespace sk::cuda {

// PTX promises no step for %globaltimer, and GPUs differ, so it is looked at. Where a look takes
// longer than a step, that is what is seen.
SK_DEVICE ClockReading read_clock() {
  constexpr uint32_t kSteps = 8, kLooksMax = 1 << 20;
  ClockReading reading{ptx::timer_ns(), UINT64_MAX};
  for (uint32_t steps = 0, looks = 0; steps < kSteps && looks < kLooksMax; ++looks) {
    const uint64_t now_ns = ptx::timer_ns();
    if (now_ns == reading.now_ns) continue;
    // The first one began before the first look.
    const uint64_t step_ns = now_ns - reading.now_ns;
    if (steps++ > 0 && step_ns < reading.step_ns) reading.step_ns = step_ns;
    reading.now_ns = now_ns;
  }
  return reading;
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_CLOCK_CUH_
