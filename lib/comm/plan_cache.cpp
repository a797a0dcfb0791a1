#include "lib/comm/plan_cache.h"

#include "lib/algo/planner.h"
#include "lib/op/schema.h"
#include "lib/plan/validate.h"

namespace sk {

OpDesc with_symmetry(OpDesc op, uint32_t symmetric) {
  const std::span<const OperandSchema> operands = op.schema().operands;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    if (operands[i].reached) op.set(OpDesc::symmetric_field(i), symmetric >> i & 1);
  }
  return op;
}

Result<std::shared_ptr<const Plan>> PlanCache::get(const OpDesc& op, const Target& target) {
  const auto known = made_.find(op);
  if (known != made_.end()) {
    if (std::shared_ptr<const Plan> plan = known->second.lock()) return plan;
  }
  SK_ASSIGN_OR_RETURN(Plan made, make_plan(op, target));
  if (Status valid = validate(made); !valid.ok()) {  // No fault of who asked for it.
    return error(SK_ERR_UNSUPPORTED, "{} has no plan that could be run: {}", describe(op),
                 valid.message());
  }
  auto plan = std::make_shared<const Plan>(std::move(made));
  if (made_.size() >= kCachedPlansMax) {
    std::erase_if(made_, [](const auto& entry) { return entry.second.expired(); });
  }
  made_[op] = plan;
  return plan;
}

}  // namespace sk
