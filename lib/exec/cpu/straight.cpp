// The shortest way through a program: one queue, on the caller's thread, and no trace. What
// run_queues() does for the general case, without heads to look after; small calls spend most of
// their own time here.
#include "lib/exec/cpu/program.h"

namespace sk::cpu {

Status CpuProgram::run_straight() {
  Worker& worker = workers_[0];
  Head& head = heads_[0];
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  for (uint32_t next = head.begin; next != head.end; ++next) {
    const LoweredTask& task = tasks_[next];
    if (task.wait_count != 0 || task.op == TaskOp::kAwait) {
      head.next.store(next, std::memory_order_relaxed);  // What ready() and give_up() look at.
      head.satisfied = 0;
      if (!ready(head)) {
        SK_RETURN_IF_ERROR(wait_for(waiter, worker, [&] { return ready(head); }));
      }
    }
    SK_RETURN_IF_ERROR(perform(next, task, /*admits=*/true));
  }
  return {};
}

}  // namespace sk::cpu
