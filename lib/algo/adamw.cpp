// adamw: elements dealt over the workers by their bytes, wherever one tensor ends and the next
// begins.
#include "lib/op/ops/adamw.h"

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/algo/rows.h"

namespace sk::algo {
namespace {

enum Number : uint8_t { kParams, kGrads, kMs, kVs };
static_assert(std::string_view(ops::adamw::kOperands[kVs].name) == "vs");

}  // namespace

Result<Plan> plan_adamw(const OpDesc& op, const Target& target, Ranks) {
  const auto n = uint64_t(op[field_of(ops::kAdamw, "n")]);
  Layout layout(op, target);
  const RowsOperand params = add_rows(layout, kParams), grads = add_rows(layout, kGrads),
                    ms = add_rows(layout, kMs), vs = add_rows(layout, kVs);
  const uint64_t bytes = params.row_bytes + grads.row_bytes + ms.row_bytes + vs.row_bytes;
  const Deal deal(target, n, bytes, line_elements(DType::kBF16));
  Part part(layout, 0, deal.queues(), 0, [](uint32_t, uint32_t) { return 0u; });
  deal.for_each([&](uint32_t queue, uint64_t first, uint64_t count) {
    int64_t numbers[kAdamwParamCount] = {};
    numbers[kAdamwDtype] = int64_t(op.type(kParams));
    numbers[kAdamwGradDtype] = int64_t(op.type(kGrads));
    numbers[kAdamwN] = int64_t(n);
    numbers[kAdamwFirst] = int64_t(first);
    numbers[kAdamwCount] = int64_t(count);
    numbers[kAdamwBeta1] = op[field_of(ops::kAdamw, "beta1")];
    numbers[kAdamwBeta2] = op[field_of(ops::kAdamw, "beta2")];
    numbers[kAdamwEps] = op[field_of(ops::kAdamw, "eps")];
    numbers[kAdamwWeightDecay] = op[field_of(ops::kAdamw, "weight_decay")];
    numbers[kAdamwLr] = run_value_of(ops::kAdamw, "lr");
    numbers[kAdamwStep] = run_value_of(ops::kAdamw, "step");
    part.builder().add({.op = TaskOp::kAdamw,
                        .queue = queue,
                        .free = kFreeRows,
                        .regions = {params.rows(first, count, kRead),
                                    grads.rows(first, count, kRead), ms.rows(first, count, kRead),
                                    vs.rows(first, count, kRead), params.rows(first, count, kWrite),
                                    ms.rows(first, count, kWrite), vs.rows(first, count, kWrite)},
                        .params = numbers});
  });
  std::vector<RankPlan> parts;
  parts.push_back(part.finish());
  Plan plan = layout.finish(std::move(parts));
  plan.free = {.number = 1};
  return plan;
}

}  // namespace sk::algo
