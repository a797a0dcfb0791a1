// One rank's part among its neighbours, of whom only their ends of the flows are known: a plan of a
// few ranks, numbered anew, that the rules for worlds can judge.
//
// A neighbour's end does what its flow says and nothing else, and knows no more than that: every
// slot has a queue of its own, so that what one of them has waited for orders nothing in another.
// A part without flows meets one rank that does nothing else.
#ifndef SK_LIB_PLAN_CHECK_SCENE_H_
#define SK_LIB_PLAN_CHECK_SCENE_H_

#include <vector>

#include "lib/plan/flow.h"
#include "lib/plan/plan.h"

namespace sk::check {

struct Scene {
  Plan plan;
  std::vector<uint32_t> ranks;    // Of the world, by number here; ascending.
  std::vector<uint32_t> buffers;  // Of the plan, by number here; others are the neighbours' own.
  uint32_t self = 0;              // The part that is judged.
  std::vector<Flow> flows;        // In the numbers of here: ranks and buffers.
};

// Of a plan with one part. Refuses flows that say what cannot be, or that neighbours see otherwise.
Result<Scene> make_scene(const Plan& part, const FlowsOf& flows_of);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_SCENE_H_
