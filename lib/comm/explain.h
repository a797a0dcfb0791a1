// A plan in a sentence, for the log: what form it has, and what about the call and the target made
// it that one.
#ifndef SK_LIB_COMM_EXPLAIN_H_
#define SK_LIB_COMM_EXPLAIN_H_

#include <string>

#include "lib/plan/plan.h"

namespace sk {

enum class PlanForm {
  kMeeting,  // Ranks meet, and nothing moves.
  kAlone,    // This rank moves its own bytes.
  kPuts,     // Bytes go to peers by puts.
  kDirect,   // Peers load and store the callers' memory.
  kOneShot,  // Inputs are copied whole to staging areas, which peers load.
  kStaged,   // Pieces go through workspace that peers load and store.
};

// Read off the plan itself, so that it cannot differ from what runs.
PlanForm form_of(const Plan& plan, uint32_t rank);

std::string explain(const Plan& plan, uint32_t rank);

}  // namespace sk

#endif  // SK_LIB_COMM_EXPLAIN_H_
