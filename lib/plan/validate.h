// The judge of plans: what it lets pass cannot deadlock, race, or leave a wrong byte.
#ifndef SK_LIB_PLAN_VALIDATE_H_
#define SK_LIB_PLAN_VALIDATE_H_

#include "lib/plan/flow.h"
#include "lib/plan/plan.h"

namespace sk {

// `world` holds all ranks' parts. OK, or SK_ERR_INVALID_ARGUMENT with a sentence that names the
// rule (docs/plan-format.md), rank, queue, task and bytes. Total: any plan that parses is judged,
// in near-linear time; one that would need more than a fixed amount of work or memory is refused
// under rule h.
Status validate(const Plan& world);

// Of a plan that is judged part by part, with the one that it has: if every rank's passes, so would
// the world. A part meets all ranks, touches others' memory with puts alone, and has no staging
// area and no free dimension. Costs what the part and its flows are, whatever the world's size.
Status validate_part(const Plan& part, const FlowsOf& flows_of);

}  // namespace sk

#endif  // SK_LIB_PLAN_VALIDATE_H_
