// A rank's part taken apart into tasks that own what they name, to be changed and put together.
#ifndef SK_TESTS_SUPPORT_LOOSE_PART_H_
#define SK_TESTS_SUPPORT_LOOSE_PART_H_

#include <vector>

#include "lib/plan/plan.h"

namespace sk::testing_support {

struct LooseTask {
  Task task;
  std::vector<Region> regions;
  std::vector<int64_t> params;
  std::vector<Wait> waits;
  std::vector<Post> posts;
};

struct LoosePart {
  RankPlan frame;  // Rank, signals and peers.
  std::vector<std::vector<LooseTask>> queues;
};

inline LoosePart take_apart(const RankPlan& part) {
  LoosePart loose;
  loose.frame.rank = part.rank;
  loose.frame.signals = part.signals;
  loose.frame.peers = part.peers;
  const auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
  for (const Queue& queue : part.queues) {
    loose.queues.emplace_back();
    for (uint32_t i = 0; i < queue.task_count; ++i) {
      const Task& task = part.tasks[queue.first_task + i];
      loose.queues.back().push_back({task, copy(part.regions_of(task)), copy(part.params_of(task)),
                                     copy(part.waits_of(task)), copy(part.posts_of(task))});
    }
  }
  return loose;
}

inline RankPlan put_together(const LoosePart& loose) {
  RankPlan part = loose.frame;
  const auto add = [](auto& table, const auto& more) {
    const auto first = uint32_t(table.size());
    table.insert(table.end(), more.begin(), more.end());
    return first;
  };
  for (const std::vector<LooseTask>& queue : loose.queues) {
    part.queues.push_back({uint32_t(part.tasks.size()), uint32_t(queue.size())});
    for (const LooseTask& each : queue) {
      Task task = each.task;
      task.region_count = uint8_t(each.regions.size());
      task.param_count = uint16_t(each.params.size());
      task.wait_count = uint16_t(each.waits.size());
      task.post_count = uint32_t(each.posts.size());
      task.first_region = add(part.regions, each.regions);
      task.first_param = add(part.params, each.params);
      task.first_wait = add(part.waits, each.waits);
      task.first_post = add(part.posts, each.posts);
      part.tasks.push_back(task);
    }
  }
  return part;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_LOOSE_PART_H_
