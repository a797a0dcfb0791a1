// A GPU as communicators see it (lib/comm/gpu_backend.h): a device that this process shares, an
// epoch of its own, and the streams of several ranks around each launch.
#ifndef SK_CUDA_EXEC_EXECUTOR_H_
#define SK_CUDA_EXEC_EXECUTOR_H_

#include <memory>

#include "lib/comm/gpu_backend.h"

namespace sk::cuda {

// Loads driver and kernels with the first communicator on a GPU, and lets go of them with the last.
Result<std::shared_ptr<GpuExecutor>> open_gpu(int32_t ordinal);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_EXECUTOR_H_
