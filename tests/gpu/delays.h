// Ranks that are late: a plan with copies of no use among its tasks, so that its ranks and queues
// come to their waits and posts at other times than they would.
#ifndef SK_TESTS_GPU_DELAYS_H_
#define SK_TESTS_GPU_DELAYS_H_

#include <random>

#include "lib/plan/plan.h"

namespace sk::cuda {

// What the plan computes stays as it is. `bytes_max`: of one copy.
Plan with_delays(Plan plan, uint64_t bytes_max, std::mt19937_64& random);

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_DELAYS_H_
