// Refusals, and the bound on the validator's own work.
#ifndef SK_LIB_PLAN_CHECK_REFUSE_H_
#define SK_LIB_PLAN_CHECK_REFUSE_H_

#include <string_view>

#include "lib/effect/work.h"
#include "lib/plan/plan.h"
#include "lib/plan/task_info.h"

namespace sk::check {

template <typename... Args>
Status refuse(char rule, fmt::format_string<Args...> format, Args&&... args) {
  return error(SK_ERR_INVALID_ARGUMENT, "plan refused, rule {}: {}", rule,
               fmt::format(format, std::forward<Args>(args)...));
}

// A task, to be named if something is wrong with it: "rank 1 queue 0 task 3 (reduce)".
struct Where {
  const RankPlan& part;
  uint32_t queue, index;
  const Task& task() const { return part.tasks[part.queues[queue].first_task + index]; }
};

class Budget : public effect::Work {
 public:
  Status status() const {
    return refuse('h', "too tangled to be judged with bounded work and memory");
  }
};

}  // namespace sk::check

template <>
struct fmt::formatter<sk::check::Where> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const sk::check::Where& where, Context& context) const {
    return fmt::format_to(context.out(), "rank {} queue {} task {} ({})", where.part.rank,
                          where.queue, where.index, sk::task_op_name(where.task().op));
  }
};

#endif  // SK_LIB_PLAN_CHECK_REFUSE_H_
