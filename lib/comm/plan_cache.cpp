#include "lib/comm/plan_cache.h"

#include "lib/algo/planner.h"
#include "lib/plan/validate.h"

namespace sk {

OpDesc with_symmetry(OpDesc op, bool in, bool out) {
  const bool shares_input = op.kind == OpKind::kAllreduce || op.kind == OpKind::kReduceScatter;
  op.symmetric_in = in && shares_input;
  op.symmetric_out = out && op.kind != OpKind::kSendRecv;
  return op;
}

Result<std::shared_ptr<const Plan>> PlanCache::get(const OpDesc& op, const Target& target) {
  const auto known = made_.find(op);
  if (known != made_.end()) {
    if (std::shared_ptr<const Plan> plan = known->second.lock()) return plan;
  }
  SK_ASSIGN_OR_RETURN(Plan made, make_plan(op, target));
  SK_RETURN_IF_ERROR(validate(made));
  auto plan = std::make_shared<const Plan>(std::move(made));
  if (made_.size() >= kCachedPlansMax) {
    std::erase_if(made_, [](const auto& entry) { return entry.second.expired(); });
  }
  made_[op] = plan;
  return plan;
}

}  // namespace sk
