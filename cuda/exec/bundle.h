// What libsk_cuda.so holds: the kernels as one fatbin, and what they were made by and for.
//
// The library is data. It is loaded only where there is a driver, and it exports one function.
#ifndef SK_CUDA_EXEC_BUNDLE_H_
#define SK_CUDA_EXEC_BUNDLE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "cuda/kernel/image.h"
#include "cuda/watch/records.h"

namespace sk::cuda {

// Changes whenever a structure that host and device share does, so that a library of another age is
// noticed. Says nothing of what the fields mean: both libraries come from one installation.
inline constexpr uint64_t kKernelInterface = [] {
  uint64_t hash = 14695981039346656037u;
  for (const size_t size :
       {sizeof(Image), sizeof(LaunchArgs), sizeof(BoxLaunchArgs), sizeof(Control), sizeof(Entry),
        sizeof(RankState), sizeof(Task), sizeof(TaskPlace), sizeof(TaskTimes), sizeof(ClockReading),
        sizeof(BareWeights), offsetof(Image, state), offsetof(LaunchArgs, operands),
        sizeof(TaskRecord), size_t(kPointersMax), size_t(kKernelCount), sizeof(WatchedBlock)})
    hash = (hash ^ size) * 1099511628211u;
  return hash;
}();

struct KernelBundle {
  uint64_t interface;  // kKernelInterface of those who built it.
  uint32_t toolkit;    // CUDA version of the compiler, as cuDriverGetVersion() counts: 13000.
  const void* image;   // For cuModuleLoadData().
  uint64_t image_bytes;
  bool watched;  // Their waits are: they have sk_begin_watch.
};

}  // namespace sk::cuda

// Of libsk_cuda.so; static memory.
extern "C" const sk::cuda::KernelBundle* sk_cuda_kernels();

#endif  // SK_CUDA_EXEC_BUNDLE_H_
