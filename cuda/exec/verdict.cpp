#include "cuda/exec/verdict.h"

#include "lib/plan/task_info.h"

namespace sk::cuda {
namespace {

// Whom the worker waited for.
uint32_t awaited(const RankPlan& part, const Control& control) {
  if (control.signal >= part.signals.size()) return control.peer;
  return part.signals[control.signal].producer;
}

std::string place(const RankPlan& part, const Control& control) {
  return fmt::format("task {} ({}) of queue {}", control.task,
                     task_op_name(part.tasks[control.task].op), control.queue);
}

std::string what_was_missing(const RankPlan& part, const Control& control) {
  if (control.signal == UINT32_MAX) return "it has not entered the call";
  const uint32_t number =
      control.signal < part.signals.size() ? part.signals[control.signal].number : control.signal;
  return fmt::format("signal {} stood at {} of {}", number, control.seen, control.wanted);
}

}  // namespace

Status verdict_status(const Plan& plan, const Control& control, int64_t timeout_ns) {
  const auto verdict = Verdict(control.verdict);
  if (verdict == Verdict::kRunning) return {};
  // Whoever looked may have nothing to do.
  if (verdict == Verdict::kAborted && control.signal == UINT32_MAX && control.peer == control.rank)
    return error(SK_ERR_ABORTED, "the run was aborted before it began");
  const RankPlan* part = plan.part(control.rank);
  if (part == nullptr || control.task >= part->tasks.size())
    return error(SK_ERR_INTERNAL,
                 "a kernel failed ({}) in rank {}, task {}, which the plan has not",
                 control.verdict, control.rank, control.task);
  const uint32_t other = awaited(*part, control);
  switch (verdict) {
    case Verdict::kRunning:
      break;
    case Verdict::kAborted:
      return error(SK_ERR_ABORTED, "the run was aborted; rank {} waited for rank {} in {}",
                   control.rank, other, place(*part, control));
    case Verdict::kTimeout:
      return error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for rank {} in {}: {}", control.rank,
                   double(timeout_ns) / 1e9, other, place(*part, control),
                   what_was_missing(*part, control));
    case Verdict::kDesync:
      return error(SK_ERR_DESYNC, "rank {} and rank {} called different things", control.rank,
                   control.peer);
    case Verdict::kBadTask:
      return error(SK_ERR_INTERNAL, "rank {}: {} is nothing that the kernel can do", control.rank,
                   place(*part, control));
  }
  return error(SK_ERR_INTERNAL, "rank {}: a kernel ended with the verdict {}", control.rank,
               control.verdict);
}

}  // namespace sk::cuda
