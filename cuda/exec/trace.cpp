#include "cuda/exec/trace.h"

#include <algorithm>

#include "cuda/exec/image.h"

namespace sk::cuda {

std::vector<TaskEvent> events_of(const RankPlan& part, std::span<const TaskTimes> times,
                                 const ClockMap& clock) {
  std::vector<TaskEvent> events;
  for (uint32_t queue = 0; queue < part.queues.size(); ++queue) {
    const Queue& tasks = part.queues[queue];
    uint64_t before_ns = 0;  // When the task before was done.
    for (uint32_t task = tasks.first_task; task < tasks.first_task + tasks.task_count; ++task) {
      if (task >= times.size() || times[task].end_ns == 0) continue;
      const auto [wait_ns, start_ns, end_ns] = times[task];
      const uint64_t waited_ns = std::min(std::max(wait_ns, before_ns), start_ns);
      events.push_back({task, queue, part.tasks[task].op, clock.host_ns(waited_ns),
                        clock.host_ns(start_ns), clock.host_ns(end_ns)});
      before_ns = end_ns;
    }
  }
  return events;
}

Result<std::shared_ptr<RankTrace>> RankTrace::start(const Device& device, uint32_t rank,
                                                    uint64_t event_count_max) {
  constexpr uint64_t kCountMax = UINT64_MAX / sizeof(TaskTimes) - 1;  // More is no memory at all.
  const uint64_t count = std::min(event_count_max, kCountMax);
  const uint64_t bytes = sizeof(ClockReading) + count * sizeof(TaskTimes);
  SK_ASSIGN_OR_RETURN(DeviceMemory memory,
                      DeviceMemory::allocate(device.owner(), bytes, "sk_trace_start()"));
  const Current current(device.driver(), device.context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(device.clear(memory.address(), bytes));
  std::shared_ptr<RankTrace> trace(new RankTrace(device, rank, std::move(memory)));
  trace->read_.event_count_max = count;
  SK_ASSIGN_OR_RETURN(trace->started_, read_moment(device, trace->memory_.address()));
  return trace;
}

abi::DevicePtr RankTrace::time_at(uint64_t index) const {
  return memory_.address() + sizeof(ClockReading) + index * sizeof(TaskTimes);
}

TimesPlace RankTrace::place(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  const uint64_t room = read_.event_count_max - used_;
  return {pointer<TaskTimes>(time_at(used_)), std::min<uint64_t>(part(plan).tasks.size(), room)};
}

void RankTrace::launched(std::shared_ptr<const Plan> plan) {
  const TimesPlace given = place(*plan);
  const std::lock_guard lock(mutex_);
  for (const Queue& queue : part(*plan).queues) {
    const auto [first, count] = launched_tasks(part(*plan), queue);
    const uint64_t end = uint64_t(first) + count;
    read_.dropped += end - std::min(end, std::max<uint64_t>(first, given.count));
  }
  if (given.count == 0) return;
  runs_.push_back({std::move(plan), used_, given.count});
  used_ += given.count;
}

Result<const TraceBuffer*> RankTrace::read() {
  const std::lock_guard lock(mutex_);
  if (read_.runs.size() == runs_.size()) return &read_;
  const Current current(device_.driver(), device_.context());
  SK_RETURN_IF_ERROR(current.status());
  SK_ASSIGN_OR_RETURN(const Moment now, read_moment(device_, memory_.address()));
  std::vector<TaskTimes> times(used_);
  SK_RETURN_IF_ERROR(device_.download(times.data(), time_at(0), used_ * sizeof(TaskTimes)));
  const ClockMap clock(started_, now);
  read_.clock_step_ns = now.step_ns;
  read_.clock_error_ns = std::max(started_.error_ns, now.error_ns);
  read_.runs.clear();
  for (const Run& run : runs_) {
    const std::span<const TaskTimes> all(times);
    read_.runs.push_back(
        {run.plan, events_of(part(*run.plan), all.subspan(run.first, run.count), clock)});
  }
  return &read_;
}

}  // namespace sk::cuda
