// Rules a, c and g: one greedy run of the world, several runs back to back, with what every task
// knows when it starts.
#ifndef SK_LIB_PLAN_CHECK_REPLAY_H_
#define SK_LIB_PLAN_CHECK_REPLAY_H_

#include <functional>
#include <vector>

#include "lib/plan/check/cells.h"

namespace sk::check {

// Called in an order that the plan allows: each task of run 0, and each rank's end of run 0.
struct Observer {
  std::function<void(const Where& where)> task;
  std::function<void(uint32_t rank)> end;
};

Status replay(const Plan& plan, const Footprint& footprint, const Observer& observer,
              Budget& budget);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_REPLAY_H_
