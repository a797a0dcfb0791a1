// From a plan's tasks to what kernels read of them (cuda/kernel/task_record.h), once, with
// everything checked that device code relies on.
#ifndef SK_CUDA_EXEC_DECODE_H_
#define SK_CUDA_EXEC_DECODE_H_

#include <vector>

#include "cuda/kernel/task_record.h"
#include "lib/base/status.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// Whether they multiply matrices of the type.
Status check_gemm_type(DType dtype);

// By task. `views`: by task too; null where no kernel of boxes runs them. An error says why the
// kernels cannot run the part: an operation or a type, too many addresses, sizes beyond theirs.
Result<std::vector<TaskRecord>> decode(const Plan& plan, const RankPlan& part,
                                       const std::vector<ProductViews>* views);
// Whether it can be.
Status check_part(const Plan& plan, const RankPlan& part);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_DECODE_H_
