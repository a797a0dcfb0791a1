// How the ranks of a GPU find their group.
#ifndef SK_LIB_COMM_GPU_MEETING_H_
#define SK_LIB_COMM_GPU_MEETING_H_

#include <memory>

#include "lib/comm/communicator.h"
#include "lib/comm/gpu_group.h"

namespace sk {

// Rank 0 makes the group over `executor`, the others get it; all ranks call it. Whatever keeps the
// group from being made is every rank's error.
Result<std::shared_ptr<GpuGroup>> meet_group(Bootstrap& bootstrap,
                                             const Communicator::Config& config,
                                             std::shared_ptr<GpuExecutor> executor);

}  // namespace sk

#endif  // SK_LIB_COMM_GPU_MEETING_H_
