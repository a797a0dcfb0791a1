// The reference executor: a whole world in one thread, slow and obvious, the oracle of all others.
//
// It does what the rules of the task format allow, not what a machine would likely do: it picks by
// seed among all tasks that could start or end now, runs tasks of a queue side by side, lets ranks
// drift apart by whole runs, delivers puts long after their sender has gone on, and overwrites
// every caller's buffer the moment its run ends.
#ifndef SK_LIB_EXEC_REFERENCE_H_
#define SK_LIB_EXEC_REFERENCE_H_

#include <array>
#include <cstddef>
#include <vector>

#include "lib/plan/plan.h"

namespace sk {

// The bytes of one rank's operands, by number; empty where it has none.
using OperandBytes = std::array<std::vector<std::byte>, OpDesc::kOperandsMax>;

struct World {
  // Before a run the caller writes inputs[run][rank] into its buffers; what is missing is poison.
  std::vector<std::vector<OperandBytes>> inputs;
  // At the end of a run: all its operands as they are then.
  std::vector<std::vector<OperandBytes>> outputs;
};

// Runs `plan`, which has all ranks' parts and is valid, inputs.size() times back to back.
// SK_ERR_TIMEOUT names the tasks that wait when none can go on; SK_ERR_INTERNAL: an output byte was
// written twice or not at all, or a signal did not grow by its posts_per_run; SK_ERR_NO_MEMORY: the
// buffers are more than 1 GiB. Packed B is k elements for each column in turn.
Status run_reference(const Plan& plan, World& world, uint64_t seed);

}  // namespace sk

#endif  // SK_LIB_EXEC_REFERENCE_H_
