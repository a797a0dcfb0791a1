// Rules a, c and g: one greedy run of the world, several runs back to back, with what every task
// knows when it starts.
//
// Of the runs behind the first, what lies behind a queue's await need not be replayed where all
// ranks that touch memory are each other's peers. Every one of them has ended the run before when
// it enters, and has then seen all posts to it (rule g), arrivals of puts among them; so what comes
// behind the await knows the run before to be over, whole. It can race only with its own run, in
// which everything follows everything as in the first: no edge of a run leads through another one.
// What a rank does in the next run before its await meets the peers' last one, and is replayed.
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

// What passes with `telling` kPair passes with kAll too; what does not is to be judged with kAll.
Status replay(const Plan& plan, const Footprint& footprint, const Observer& observer,
              Telling telling, Budget& budget);
// With more ranks, blocks of lines by pairs cost more than they save.
inline constexpr uint32_t kPairRanksMax = 256;

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_REPLAY_H_
