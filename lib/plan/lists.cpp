#include "lib/plan/lists.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/article.h"
#include "lib/op/schema.h"
#include "lib/plan/task_info.h"

namespace sk {
namespace {

// Where the tile's record says what of the array a region has.
bool goes_along(const effect::Tile::Form& form, int region) {
  const auto along = [&](const effect::Tile::Place& place) {
    return place.region == region && place.index[0] < 0 && place.index[1] == 0 &&
           place.blocks_of < 0;
  };
  return std::ranges::any_of(form.steps, [&](const effect::Tile::Do& step) {
    return along(step.out) || std::any_of(step.in.begin(), step.in.end(), along);
  });
}

}  // namespace

std::optional<Along> along_first_range(const RankPlan& part, const Task& task) {
  const effect::Tile* tile = effect_of(task.op);
  const std::span<const int64_t> params = part.params_of(task);
  const effect::Tile::Form* form = tile == nullptr ? nullptr : tile->form(params);
  if (form == nullptr || form->ranges.empty()) return std::nullopt;
  const effect::Tile::Range& range = form->ranges[0];
  if (range.first.parameter < 0 || range.count.parameter < 0) return std::nullopt;
  const int64_t count = tile->value(range.count, params);
  if (count <= 0) return std::nullopt;
  Along out{.first = uint16_t(range.first.parameter), .count = uint16_t(range.count.parameter)};
  const std::span<const Region> regions = part.regions_of(task);
  for (size_t i = 0; i < regions.size(); ++i) {
    const bool along = goes_along(*form, int(form->role(i, regions.size())));
    const bool vector = regions[i].rows == 1 && regions[i].row_bytes % uint64_t(count) == 0;
    if (along && vector) out.bytes[i] = regions[i].row_bytes / uint64_t(count);
  }
  return out;
}

bool is_list(const OpDesc& op, const Buffer& buffer) {
  const std::span<const OperandSchema> operands = op.schema().operands;
  return buffer.kind != BufferKind::kWorkspace && buffer.operand < operands.size() &&
         operands[buffer.operand].list;
}

std::string list_flaw(const Plan& plan) {
  if (!plan.op.schema().has_lists()) return "";
  for (const RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      const std::span<const Region> regions = part.regions_of(task);
      const std::optional<Along> along = along_first_range(part, task);
      for (size_t i = 0; i < regions.size(); ++i) {
        if (!is_list(plan.op, plan.buffers[regions[i].buffer])) continue;
        // Of exactly so much (in_effect()) nothing is free, and the first range is cut all the
        // same.
        const bool free = (task.flags & kFreeRows) != 0 || plan.free.number == 0;
        const bool cut = along && along->bytes[i] != 0 && free;
        if (cut && regions[i].buffer_count == 1) continue;
        return fmt::format("{} has region {} in a list, and is not cut along it",
                           with_article(task_op_name(task.op)), i);
      }
    }
  }
  return "";
}

std::vector<RunValue> run_values(const RankPlan& part) {
  std::vector<RunValue> out;
  for (const Task& task : part.tasks) {
    const Signature* signature = signature_of(task.op);
    if (signature == nullptr) continue;
    for (uint32_t i = 0; i < task.param_count && i < signature->parameters.size(); ++i) {
      if (signature->parameters[i].use != ParamUse::kRun) continue;
      const uint32_t at = task.first_param + i;
      out.push_back({at, uint32_t(part.params[at] - kRunValue)});
    }
  }
  return out;
}

Plan with_run_values(Plan plan, std::span<const int64_t> values) {
  for (RankPlan& part : plan.ranks) {
    for (const RunValue& each : run_values(part)) part.params[each.param] = values[each.number];
  }
  return plan;
}

}  // namespace sk
