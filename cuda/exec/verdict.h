// What a launch that failed says, as a sentence.
#ifndef SK_CUDA_EXEC_VERDICT_H_
#define SK_CUDA_EXEC_VERDICT_H_

#include "cuda/kernel/image.h"
#include "lib/base/status.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// OK while no worker has failed. `plan` has the part of the rank that `control` speaks of.
Status verdict_status(const Plan& plan, const Control& control, int64_t timeout_ns);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_VERDICT_H_
