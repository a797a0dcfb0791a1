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

namespace {

Result<Plan> make_world(const OpDesc& op, const Target& target) {
  SK_ASSIGN_OR_RETURN(Plan made, make_plan(op, target));
  SK_RETURN_IF_ERROR(validate(made));
  return made;
}

Result<Plan> make_part(const OpDesc& op, const Target& target, uint32_t rank,
                       const FlowsOf& flows) {
  SK_ASSIGN_OR_RETURN(Plan made, make_plan_part(op, target, rank));
  SK_RETURN_IF_ERROR(validate_part(made, flows));
  made.flows_hash = flows_hash(flows, target.world_size);
  return made;
}

}  // namespace

template <typename Make>
Result<std::shared_ptr<const Plan>> PlanCache::known_or(const OpDesc& op, const Make& make) {
  const auto known = made_.find(op);
  if (known != made_.end()) {
    if (std::shared_ptr<const Plan> plan = known->second.lock()) return plan;
  }
  Result<Plan> made = make();
  if (!made.ok() && made.status().code() == SK_ERR_INVALID_ARGUMENT) {  // No fault of who asked.
    return error(SK_ERR_UNSUPPORTED, "{} has no plan that could be run: {}", describe(op),
                 made.status().message());
  }
  if (!made.ok()) return std::move(made.status());
  auto plan = std::make_shared<const Plan>(std::move(made.value()));
  if (made_.size() >= kCachedPlansMax) {
    std::erase_if(made_, [](const auto& entry) { return entry.second.expired(); });
  }
  made_[op] = plan;
  return plan;
}

Result<std::shared_ptr<const Plan>> PlanCache::get(const OpDesc& op, const Target& target) {
  return known_or(op, [&] { return make_world(op, target); });
}

Result<std::shared_ptr<const Plan>> PlanCache::get(const OpDesc& op, const Target& target,
                                                   uint32_t rank) {
  return known_or(op, [&] {
    const std::optional<FlowsOf> flows = flows_of(op, target);
    return flows ? make_part(op, target, rank, *flows) : make_world(op, target);
  });
}

}  // namespace sk
