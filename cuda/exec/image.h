// From a plan to its image in device memory: layout, sizes and the bytes to be uploaded.
//
// Pure: addresses come from outside, so the same code serves a GPU, and the CPU in its place.
#ifndef SK_CUDA_EXEC_IMAGE_H_
#define SK_CUDA_EXEC_IMAGE_H_

#include <span>
#include <vector>

#include "cuda/kernel/image.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// What a rank keeps in device memory for one plan, all of it zero at first, in one allocation that
// its peers map. Offsets but that of the signals' end depend on the plan's shared part alone, so a
// rank knows its peers'.
struct RankMemory {
  uint64_t state = 0;
  uint64_t entries = 0;
  uint64_t workspace = 0;    // Of generations 1.
  uint64_t staging[2] = {};  // Of generations 2, by the run's parity.
  uint64_t signals = 0;
  uint64_t bytes = 0;
};
RankMemory rank_memory(const Plan& plan, uint32_t rank);

// The image of rank `part.rank` for the address `at`, followed by its tables. `plan` has the parts
// of all ranks that it posts to. `ranks`: where each rank's memory begins as this GPU reaches it.
// `records`: of the part's tasks, see decode().
std::vector<std::byte> make_image(const Plan& plan, const RankPlan& part, uint64_t at,
                                  std::span<const uint64_t> ranks,
                                  std::span<const TaskRecord> records);

// What a launch of all ranks does of a queue: not the tasks at its end that only wait: they move
// nothing and tell nobody, and what they wait for is that peers have done with this rank's memory
// and told all that they tell in a run. All ranks are one launch, so the launch's end is that wait:
// the next run of the plan, and whoever uses the memory next, comes behind it on its stream or by
// an event. A queue may have no task left; a kAwait stays, for it also compares what the ranks
// call.
Queue launched_tasks(const RankPlan& part, Queue queue);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_IMAGE_H_
