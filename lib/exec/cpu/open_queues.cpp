// Queues that several workers run. Each has its own worker, as the others have; who has nothing
// left to start takes the next task of another's queue, so that a worker whose core is slow, shared
// or not awake yet does not hold up the rest. What of a plan is computed does not change: tasks
// start in the order of their queue, as the next to start is taken under a lock, which also hands
// on what the starts before have waited for; and posts leave in that order, by whoever finishes the
// oldest task. The first queue's await is the one task that later ones need the end of, without
// saying so: it learns where the peers' operands are. A queue is open where its tasks are long
// beside that, and where any thread can post.
#include <algorithm>

#include "lib/exec/cpu/program.h"

namespace sk::cpu {
namespace {

// Of a task that may be taken by others: 50 times what taking it costs.
constexpr uint64_t kTakenNs = 5'000;

}  // namespace

void CpuProgram::open_queues() {
  for (Head& head : heads_) {
    uint32_t others = 0;
    bool any_thread = true;  // Puts and posts to ranks that are not mapped are worker 0's.
    for (uint32_t i = head.begin; i < head.end; ++i) {
      LoweredTask& task = tasks_[i];
      const bool is_tile = task.fn != nullptr || task.own != nullptr;
      // The first queue's await is its own worker's: it looks at the peers' entries for all.
      const bool is_short =
          task.op == TaskOp::kNop || (task.op == TaskOp::kAwait && head.queue > 0);
      task.any_worker = is_short || (is_tile && task.least_ns >= kTakenNs);
      task.admitted = i > head.begin && head.queue == 0 && tasks_[i - 1].op == TaskOp::kAwait;
      others += is_tile && task.any_worker && !task.after_all ? 1 : 0;
      any_thread = any_thread && task.op != TaskOp::kPut &&
                   std::all_of(task.posts, task.posts + task.post_count,
                               [](const LoweredPost& post) { return post.word != nullptr; });
    }
    if (others == 0 || !any_thread) continue;
    head.open = true;
    head.finished.resize(head.end - head.begin);
  }
  for (Worker& worker : workers_) {
    // From the own place on, so that those that are free spread over the queues.
    const size_t first = worker.heads[0]->queue;
    for (size_t i = 1; i < heads_.size(); ++i) {
      Head* head = &heads_[(first + i) % heads_.size()];
      const bool own = std::ranges::find(worker.heads, head) != worker.heads.end();
      if (head->open && !own) worker.others.push_back(head);
    }
  }
}

// Whether it is worth the lock to look at the waits of the next task.
bool CpuProgram::claimable(const Head& head, bool is_own) const {
  const uint32_t next = head.next.load(std::memory_order_relaxed);
  if (next == head.end) return false;
  const LoweredTask& task = tasks_[next];
  if (!is_own && !task.any_worker) return false;
  if (task.admitted && admitted_.load(std::memory_order_acquire) != args_->seq + 1) return false;
  return !task.after_all || head.retired.load(std::memory_order_relaxed) == next;
}

bool CpuProgram::claim(Head& head, bool is_own, uint32_t& index, int64_t& waiting_since) {
  if (!claimable(head, is_own)) return false;
  std::unique_lock lock(head.lock, std::defer_lock);
  if (is_own) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;  // Somebody is at it.
  }
  if (!claimable(head, is_own) || !ready(head)) return false;
  index = head.next.load(std::memory_order_relaxed);
  waiting_since = std::exchange(head.waiting_since, 0);
  head.satisfied = 0;
  head.next.store(index + 1, std::memory_order_relaxed);
  return true;
}

bool CpuProgram::any_claimable(Head& head, bool is_own) {
  if (!claimable(head, is_own)) return false;
  const std::unique_lock lock(head.lock, std::try_to_lock);
  return lock.owns_lock() && claimable(head, is_own) && ready(head);
}

// At most one task of another's queue.
Status CpuProgram::run_claimed(Worker& worker, Head& head, bool is_own, bool& any) {
  uint32_t index = 0;
  int64_t waiting_since = 0;
  while (claim(head, is_own, index, waiting_since)) {
    any = true;
    const LoweredTask& task = tasks_[index];
    const int64_t start = shared_.trace != nullptr ? now_ns() : 0;
    SK_RETURN_IF_ERROR(work(index, task, /*admits=*/head.queue == 0));
    if (shared_.trace != nullptr) {
      // In the place of the worker that ran it, whose tasks follow one another: the queue's next
      // may have been waited for, by a helper, while this worker was still at its last.
      const int64_t since = std::max(waiting_since, worker.busy_until_ns);
      const bool waited = is_own && waiting_since != 0;
      worker.busy_until_ns = now_ns();
      note_event(worker, {index, worker.heads[0]->queue, task.op, waited ? since : start, start,
                          worker.busy_until_ns});
    }
    SK_RETURN_IF_ERROR(retire(head, index));
    if (!is_own) break;
  }
  return {};
}

// The task has finished: its posts leave once those of all before it have.
Status CpuProgram::retire(Head& head, uint32_t index) {
  bool frees_next = false;
  {
    const std::lock_guard lock(head.lock);
    head.finished[index - head.begin] = 1;
    uint32_t oldest = head.retired.load(std::memory_order_relaxed);
    for (; oldest != head.end && head.finished[oldest - head.begin] != 0; ++oldest) {
      if (tasks_[oldest].post_count != 0) SK_RETURN_IF_ERROR(post(tasks_[oldest]));
    }
    head.retired.store(oldest, std::memory_order_relaxed);
    frees_next = oldest != head.end && tasks_[oldest].after_all;
  }
  if (frees_next) wake_driver(shared_.endpoint);
  return {};
}

}  // namespace sk::cpu
