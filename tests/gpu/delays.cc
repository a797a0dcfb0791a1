#include "tests/gpu/delays.h"

namespace sk::cuda {
namespace {

constexpr uint64_t kUnit = 16;

// Two halves for every queue, read and written by nobody else.
uint32_t add_scratch(Plan& plan, uint32_t rank, uint64_t bytes) {
  Buffer scratch;
  scratch.owner = rank;
  scratch.bytes = bytes;
  scratch.offset = align_up(workspace_bytes(plan, rank, 1), kWorkspaceAlign);
  plan.buffers.push_back(scratch);
  return uint32_t(plan.buffers.size() - 1);
}

Task copy_task(RankPlan& part, uint32_t scratch, uint64_t offset, uint64_t half, uint64_t bytes) {
  Task task{};
  task.op = TaskOp::kCopy;
  task.region_count = 2;
  task.param_count = kCopyParamCount;
  task.first_region = uint32_t(part.regions.size());
  task.first_param = uint32_t(part.params.size());
  part.regions.push_back({offset, bytes, bytes, 1, scratch, 1, kRead});
  part.regions.push_back({offset + half, bytes, bytes, 1, scratch, 1, kWrite});
  part.params.resize(part.params.size() + kCopyParamCount, kStoreDefault);
  return task;
}

}  // namespace

Plan with_delays(Plan plan, uint64_t bytes_max, std::mt19937_64& random) {
  const uint64_t half = align_up(bytes_max, kUnit);
  for (RankPlan& part : plan.ranks) {
    const uint32_t scratch = add_scratch(plan, part.rank, part.queues.size() * 2 * half);
    const uint64_t lateness = random() % 4;  // Some ranks are never late, some often.
    std::vector<Task> tasks;
    for (uint32_t i = 0; i < part.queues.size(); ++i) {
      Queue& queue = part.queues[i];
      const auto first = uint32_t(tasks.size());
      for (uint32_t task = 0; task < queue.task_count; ++task) {
        if (random() % 4 < lateness) {
          const uint64_t bytes = kUnit * (1 + random() % (half / kUnit));
          tasks.push_back(copy_task(part, scratch, i * 2 * half, half, bytes));
        }
        tasks.push_back(part.tasks[queue.first_task + task]);
      }
      queue = {first, uint32_t(tasks.size()) - first};
    }
    part.tasks = std::move(tasks);
  }
  return plan;
}

}  // namespace sk::cuda
