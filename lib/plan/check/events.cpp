#include "lib/plan/check/events.h"

#include <unordered_map>

namespace sk::check {
namespace {

// Puts lie on lines of their own, because after_all says nothing of their arrival.
uint64_t line_key(const RankPlan& part, const Task& task) {
  constexpr uint64_t kEnterKey = 1, kPutKey = 2, kPostKey = 3;
  if (task.op == TaskOp::kEnter) return kEnterKey << 32;
  if (task.post_count == 0) return 0;
  return (task.op == TaskOp::kPut ? kPutKey : kPostKey) << 32 | part.posts_of(task)[0].rank;
}

}  // namespace

Events::Events(const Plan& plan) : rank_count_(uint32_t(plan.ranks.size())) {
  for (const RankPlan& part : plan.ranks) {
    first_queue_.push_back(uint32_t(queues_.size()));
    for (uint32_t q = 0; q < part.queues.size(); ++q) {
      queues_.push_back({part.rank, q, 0, part.queues[q].task_count});
    }
  }
  first_queue_.push_back(uint32_t(queues_.size()));
  line_count_ = 2 * rank_count_ + uint32_t(queues_.size());
  per_run_.assign(line_count_, 0);
  std::unordered_map<uint64_t, uint32_t> lines;
  for (uint32_t q = 0; q < queues_.size(); ++q) {
    WorldQueue& queue = queues_[q];
    queue.first_event = uint32_t(events_.size());
    const RankPlan& part = plan.ranks[queue.rank];
    lines.clear();
    uint32_t after_all_next = queue.count;
    for (uint32_t i = 0; i < queue.count; ++i) {
      const Task& task = part.tasks[part.queues[queue.queue].first_task + i];
      Event event{q, int32_t(i), kNoLine, 0, 0};
      if (const uint64_t key = line_key(part, task); key != 0) {
        const auto [entry, fresh] = lines.emplace(key, line_count_);
        if (fresh) {
          ++line_count_;
          per_run_.push_back(0);
        }
        event.line = entry->second;
        event.line_index = per_run_[event.line]++;
      }
      events_.push_back(event);
    }
    for (uint32_t i = queue.count; i-- > 0;) {
      events_[queue.first_event + i].after_all_next = after_all_next;
      const Task& task = part.tasks[part.queues[queue.queue].first_task + i];
      if (task.flags & kAfterAll) after_all_next = i;
    }
  }
}

Where Events::where(const Plan& plan, uint32_t event) const {
  const Event& e = events_[event];
  const WorldQueue& queue = queues_[e.queue];
  return {plan.ranks[queue.rank], queue.queue, uint32_t(e.index)};
}

void Events::learn(Clocks& clocks, uint32_t& clock, uint32_t event, int32_t run) const {
  const Event& e = events_[event];
  clocks.learn(clock, e.line, run * per_run_[e.line] + e.line_index);
}

bool Events::knows_post(const Clocks& clocks, uint32_t clock, uint32_t event, int32_t run) const {
  const Event& e = events_[event];
  return e.line != kNoLine && clocks.knows(clock, e.line, run * per_run_[e.line] + e.line_index);
}

bool Events::knows_end(const Clocks& clocks, uint32_t clock, uint32_t event, int32_t run) const {
  const Event& e = events_[event];
  const int32_t finished = clocks.prefix(clock, finished_line(e.queue));
  return run * int32_t(queues_[e.queue].count) + e.index < finished ||
         knows_post(clocks, clock, event, run);
}

}  // namespace sk::check
