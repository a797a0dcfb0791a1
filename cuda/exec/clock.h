// The GPU's clock beside the host's.
#ifndef SK_CUDA_EXEC_CLOCK_H_
#define SK_CUDA_EXEC_CLOCK_H_

#include "cuda/exec/device.h"

namespace sk::cuda {

// One moment by both clocks; CLOCK_MONOTONIC is the host's.
struct Moment {
  int64_t gpu_ns = 0, host_ns = 0;
  int64_t step_ns = 0;   // Of the GPU's clock.
  int64_t error_ns = 0;  // The two readings lie no further apart.
};

// Has the GPU look at its clock, behind whatever keeps it from running one more block; `scratch` is
// memory of it for a ClockReading. This thread's context is the device's.
Result<Moment> read_moment(const Device& device, abi::DevicePtr scratch);

// From the GPU's times to the host's, by a moment before them and one after: the clocks drift apart
// by some microseconds a second.
class ClockMap {
 public:
  ClockMap(const Moment& before, const Moment& after) : before_(before), after_(after) {}
  int64_t host_ns(uint64_t gpu_ns) const;

 private:
  const Moment before_, after_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_CLOCK_H_
