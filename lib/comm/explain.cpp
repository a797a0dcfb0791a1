#include "lib/comm/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/algo/two_level.h"
#include "lib/op/dtype.h"
#include "lib/plan/crossing.h"
#include "lib/plan/task_info.h"

namespace sk {
namespace {

bool is_operand(const Buffer& buffer) { return buffer.kind != BufferKind::kWorkspace; }

template <typename Judge>
bool any_buffer(const Plan& plan, const Judge& judge) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), judge);
}

uint64_t largest_put(const RankPlan& part) {
  uint64_t most = 0;
  for (const Task& task : part.tasks) {
    if (task.op == TaskOp::kPut) most = std::max(most, part.regions_of(task)[0].row_bytes);
  }
  return most;
}

std::string why(PlanForm form, const Plan& plan, const RankPlan* part) {
  const Target& target = plan.target;
  const bool symmetric = plan.op.any_symmetric();
  const uint64_t most = symmetric ? target.one_shot_symmetric_bytes : target.one_shot_bytes;
  switch (form) {
    case PlanForm::kMeeting:
      return "a meeting of the ranks: nothing is to be moved";
    case PlanForm::kAlone:
      return "by this rank alone";
    case PlanForm::kPuts:
      return fmt::format("by puts of {} bytes at most, {} under way: {}", largest_put(*part),
                         target.slot_count,
                         target.mapped ? "the callers' memory is not symmetric on both sides"
                                       : "no peer's memory is mapped");
    case PlanForm::kDirect:
      return "direct: peers reach the callers' memory, which is symmetric";
    case PlanForm::kOneShot:
      return fmt::format("one-shot: up to {} bytes{} are copied whole, for one hand-off less", most,
                         symmetric ? " of symmetric memory" : "");
    case PlanForm::kStaged:
      return fmt::format(
          "staged, piece by piece: the callers' memory is not symmetric where peers would reach it"
          " (whole up to {} bytes)",
          most);
  }
  return {};
}

std::string levels(const Plan& plan) {
  const algo::Choice choice = algo::choose_levels(plan.op, plan.target);
  switch (choice.levels) {
    case algo::Levels::kWhole:
      return "in two levels, inputs whole to one rank of each host";
    case algo::Levels::kAlongHosts:
      return "in two levels, from host to host";
    case algo::Levels::kOncePerHost:
      return "in two levels, once to each host";
    case algo::Levels::kFlat:
      break;
  }
  return choice.why_flat == nullptr
             ? "from rank to rank"
             : fmt::format("from rank to rank, although ranks share hosts: {}", choice.why_flat);
}

// What it costs the hosts' links, as the plan has it; of a plan without all parts nothing.
std::string between_hosts(const Plan& plan) {
  const bool whole = plan.ranks.size() == plan.world_size();
  const std::vector<LinkLoad> loads = whole ? crossing_of(plan) : std::vector<LinkLoad>();
  const CrossingSum sum = sum_of(loads);
  if (sum.messages == 0) return {};
  return fmt::format("; between {} hosts {}: {} messages, {} bytes from a host at most",
                     loads.size(), levels(plan), sum.messages, sum.bytes_out_max);
}

}  // namespace

PlanForm form_of(const Plan& plan, uint32_t rank) {
  const RankPlan* part = plan.part(rank);
  const auto moves = [](const Task& task) { return moves_bytes(task.op); };
  if (part == nullptr || std::none_of(part->tasks.begin(), part->tasks.end(), moves))
    return PlanForm::kMeeting;
  if (plan.world_size() == 1) return PlanForm::kAlone;
  const bool puts = std::any_of(part->tasks.begin(), part->tasks.end(),
                                [](const Task& task) { return task.op == TaskOp::kPut; });
  if (puts) return PlanForm::kPuts;
  const auto reached = [](const Buffer& b) { return b.access == BufferAccess::kMapped; };
  if (any_buffer(plan, [&](const Buffer& b) { return is_operand(b) && reached(b); }))
    return PlanForm::kDirect;
  if (any_buffer(plan, [&](const Buffer& b) { return !is_operand(b) && b.generations == 2; }))
    return PlanForm::kOneShot;
  return PlanForm::kStaged;
}

std::string explain(const Plan& plan, uint32_t rank) {
  const RankPlan* part = plan.part(rank);
  const size_t queues = part == nullptr ? 0 : part->queues.size();
  const size_t tasks = part == nullptr ? 0 : part->tasks.size();
  return fmt::format("{}: {}{}; {} tasks in {} queues", describe(plan.op),
                     why(form_of(plan, rank), plan, part), between_hosts(plan), tasks, queues);
}

}  // namespace sk
