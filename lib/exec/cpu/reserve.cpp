// What a run takes beyond its plan's memory: threads, and scratch for matrix products. A rank that
// cannot have them says so before it has moved a byte.
#include <algorithm>

#include "lib/exec/cpu/program.h"
#include "lib/exec/cpu/tile/gemm.h"

namespace sk::cpu {

Status CpuProgram::reserve() {
  const uint32_t count = uint32_t(workers_.size());
  SK_RETURN_IF_ERROR(shared_.workers.start(count));
  if (!multiplies_) return {};
  SK_RETURN_IF_ERROR(gemm_reserve_scratch());  // The caller's thread may be another each time.
  return shared_.workers.reserve_scratch(count);
}

// Enters all the same, so that the peers hear of it instead of waiting. Their entries are awaited:
// the next run but one uses the same slots.
Status CpuProgram::stay_out(const RunArgs& args, Status why) {
  RunArgs declined = args;
  declined.decline = true;
  args_ = &declined;
  SK_RETURN_IF_ERROR(enter());
  const auto tasks = part_->tasks.begin() + part_->queues[0].first_task;
  const auto await = std::find_if(tasks, part_->tasks.end(),
                                  [](const Task& task) { return task.op == TaskOp::kAwait; });
  const uint32_t index = uint32_t(await - part_->tasks.begin());
  Worker worker;
  worker.heads.push_back({0, index, index + 1, index});
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  Status status = waiter.wait([&] { return entries_arrived(worker.heads[0]); }, args.timeout_ns);
  if (!status.ok()) return explain(std::move(status), worker);
  return why;
}

}  // namespace sk::cpu
