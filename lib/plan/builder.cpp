#include "lib/plan/builder.h"

#include <limits>

namespace sk {

RankBuilder::RankBuilder(uint32_t rank, uint32_t queue_count) : queues_(queue_count) {
  part_.rank = rank;
}

void RankBuilder::add(const TaskSpec& spec) {
  // A task has room for so many waits; others before it take the rest.
  constexpr size_t kWaitsMax = std::numeric_limits<decltype(Task::wait_count)>::max();
  if (spec.waits.size() > kWaitsMax) {
    add({.op = TaskOp::kNop, .queue = spec.queue, .waits = spec.waits.first(kWaitsMax)});
    TaskSpec rest = spec;
    rest.waits = spec.waits.subspan(kWaitsMax);
    return add(rest);
  }
  Task task{};
  task.op = spec.op;
  task.flags = uint8_t((spec.after_all ? kAfterAll : 0) |
                       (spec.posts_in_order ? kPostsInOrder : 0) | spec.free);
  task.region_count = uint8_t(spec.regions.size() + spec.more_regions.size());
  task.param_count = uint16_t(spec.params.size());
  task.wait_count = uint16_t(spec.waits.size());
  task.post_count = uint32_t(spec.posts.size());
  task.first_region = uint32_t(part_.regions.size());
  task.first_param = uint32_t(part_.params.size());
  task.first_wait = uint32_t(part_.waits.size());
  task.first_post = uint32_t(part_.posts.size());
  part_.regions.insert(part_.regions.end(), spec.regions.begin(), spec.regions.end());
  part_.regions.insert(part_.regions.end(), spec.more_regions.begin(), spec.more_regions.end());
  part_.params.insert(part_.params.end(), spec.params.begin(), spec.params.end());
  part_.waits.insert(part_.waits.end(), spec.waits.begin(), spec.waits.end());
  part_.posts.insert(part_.posts.end(), spec.posts.begin(), spec.posts.end());
  queues_[spec.queue].push_back(task);
}

RankPlan RankBuilder::finish() {
  for (const std::vector<Task>& queue : queues_) {
    part_.queues.push_back({uint32_t(part_.tasks.size()), uint32_t(queue.size())});
    part_.tasks.insert(part_.tasks.end(), queue.begin(), queue.end());
  }
  return std::move(part_);
}

}  // namespace sk
