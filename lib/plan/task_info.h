// What each task of a plan looks like: of the kinds that executors run themselves (nop, enter,
// await, put), and of every tile operation, from its record.
#ifndef SK_LIB_PLAN_TASK_INFO_H_
#define SK_LIB_PLAN_TASK_INFO_H_

#include <optional>
#include <string_view>

#include "lib/plan/plan.h"
#include "lib/tile/tile_op.h"

namespace sk {

// Null for a number that is no operation; all that are follow each other from 0 on.
const Signature* signature_of(TaskOp op);

// For error sentences and text: "reduce".
std::string_view task_op_name(TaskOp op);

// Whether it reads or writes any region.
bool moves_bytes(TaskOp op);

// What it does to what it holds; null where it leaves nothing in any region.
const effect::Tile* effect_of(TaskOp op);

// The parameter that chooses among the forms of the task's regions, and its value; none where there
// is one form. The task has the parameters that its signature asks for.
struct ChosenForm {
  const Parameter& parameter;
  int64_t value;
};
std::optional<ChosenForm> chosen_form(const RankPlan& part, const Task& task);

}  // namespace sk

#endif  // SK_LIB_PLAN_TASK_INFO_H_
