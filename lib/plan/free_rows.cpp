#include "lib/plan/free_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/article.h"
#include "lib/op/extent.h"
#include "lib/op/schema.h"
#include "lib/plan/task_info.h"

namespace sk {
namespace {

constexpr uint8_t kFreeFlags = kFreeRows | kFreeBlocks;

uint64_t cdiv(uint64_t count, uint64_t block) { return count / block + (count % block != 0); }

// What the task's first range goes over.
uint64_t whole_of(const Plan& plan, const Task& task, uint64_t extent) {
  return (task.flags & kFreeBlocks) != 0 ? cdiv(extent, plan.free.block) : extent;
}

// Where the tile's record says what of the array a region has.
const effect::Tile::Place* place_of(const effect::Tile::Form& form, int region) {
  for (const effect::Tile::Do& step : form.steps) {
    if (step.out.region == region) return &step.out;
    for (const effect::Tile::Place& place : step.in) {
      if (place.region == region) return &place;
    }
  }
  return nullptr;
}

const effect::Tile::Form* form_of(const Task& task, std::span<const int64_t> params) {
  const effect::Tile* tile = effect_of(task.op);
  return tile == nullptr ? nullptr : tile->form(params);
}

// `count` of `before` elements along the axis on which the first range lies.
void cut(const effect::Tile::Place& place, uint64_t before, uint64_t count, Region& region) {
  if (count == before) return;
  if (count == 0) {
    region = {0, 0, 0, 1, region.buffer, region.buffer_count, region.access};
  } else if (place.index[0] == 0) {
    region.rows = uint32_t(count);
    if (count == 1) region.pitch = region.row_bytes;
  } else {
    region.row_bytes = region.row_bytes / before * count;
    if (region.rows == 1) region.pitch = region.row_bytes;
  }
}

}  // namespace

uint64_t free_extent(const Plan& plan) {
  if (plan.free.number == 0) return 0;
  return uint64_t(plan.op[plan.op.schema().dimension_field(plan.free.number - 1)]);
}

bool put_in_effect(const Plan& plan, const Task& task, uint64_t extent, std::span<int64_t> params,
                   std::span<Region> regions) {
  if ((task.flags & kFreeFlags) == 0) return true;
  const effect::Tile::Form* form = form_of(task, params);
  if (form == nullptr || form->ranges.empty()) return true;
  const effect::Tile& tile = *effect_of(task.op);
  const effect::Tile::Range& range = form->ranges[0];
  const uint64_t whole = whole_of(plan, task, extent);
  const auto first = uint64_t(tile.value(range.first, params));
  const auto planned = uint64_t(tile.value(range.count, params));
  const uint64_t count = whole <= first ? 0 : std::min(planned, whole - first);

  bool writes = false;
  for (size_t i = 0; i < regions.size(); ++i) {
    Region& region = regions[i];
    const effect::Tile::Place* place = place_of(*form, int(form->role(i, regions.size())));
    const bool follows = place != nullptr && (place->index[0] == 0 || place->index[1] == 0);
    if (follows && place->blocks_of == 0) {
      const uint64_t block = uint64_t(std::max<int64_t>(1, tile.value(place->block, params)));
      cut(*place, cdiv(planned, block), cdiv(count, block), region);
    } else if (follows) {
      cut(*place, planned, count, region);
    }
    writes |= region.access == kWrite && region.row_bytes > 0;
  }
  if (range.count.parameter >= 0) params[size_t(range.count.parameter)] = int64_t(count);
  if (range.whole.parameter >= 0) params[size_t(range.whole.parameter)] = int64_t(whole);
  return writes;
}

Plan in_effect(const Plan& plan, uint64_t extent) {
  Plan exact = plan;
  exact.free = {};
  exact.op.set(plan.op.schema().dimension_field(plan.free.number - 1), int64_t(extent));
  const Operands operands(exact.op, plan.target.world_size, plan.target.packed_bytes);
  for (Buffer& buffer : exact.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    buffer.kind = kind_of(operands, exact.op, buffer.operand);
    buffer.bytes = operands.extent(buffer.operand).bytes;
  }
  for (RankPlan& part : exact.ranks) {
    for (Task& task : part.tasks) {
      const bool left = put_in_effect(
          plan, task, extent, std::span(part.params).subspan(task.first_param, task.param_count),
          std::span(part.regions).subspan(task.first_region, task.region_count));
      task.flags &= uint8_t(~kFreeFlags);
      if (left) continue;
      task.op = TaskOp::kNop;
      task.region_count = 0;
      task.param_count = 0;
    }
  }
  return exact;
}

std::string free_flaw(const Plan& plan) {
  const Schema& schema = plan.op.schema();
  const FreeDimension& free = plan.free;
  if (free == FreeDimension()) return "";
  if (free.number == 0 || free.number > schema.dimensions.size() ||
      std::string_view(schema.free) != schema.dimensions[free.number - 1].name) {
    return fmt::format("{} has no such free dimension", schema.name);
  }
  const uint64_t extent = free_extent(plan);
  for (const RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      const uint8_t flags = task.flags & kFreeFlags;
      if (flags == 0) continue;
      if (flags == kFreeFlags || (flags == kFreeBlocks && free.block == 0)) {
        return "a task is of rows, or of the plan's blocks of them";
      }
      const std::span<const int64_t> params = part.params_of(task);
      const effect::Tile::Form* form = form_of(task, params);
      if (form == nullptr || form->ranges.empty() || form->ranges[0].whole.parameter < 0) {
        return fmt::format("{} has no rows to count", with_article(task_op_name(task.op)));
      }
      // With it all that put_in_effect() writes is what the plan says where all is in effect.
      const int64_t whole = effect_of(task.op)->value(form->ranges[0].whole, params);
      if (whole < 0 || uint64_t(whole) != whole_of(plan, task, extent)) {
        return fmt::format("{} goes over {} rows, its plan over {}",
                           with_article(task_op_name(task.op)), whole,
                           whole_of(plan, task, extent));
      }
    }
  }
  return "";
}

}  // namespace sk
