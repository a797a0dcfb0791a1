// The world's tasks numbered through, and the lines of a clock on which their ends are counted.
#ifndef SK_LIB_PLAN_CHECK_EVENTS_H_
#define SK_LIB_PLAN_CHECK_EVENTS_H_

#include <vector>

#include "lib/plan/check/knowledge.h"
#include "lib/plan/check/world_signals.h"
#include "lib/plan/plan.h"

namespace sk::check {

inline constexpr uint32_t kNoLine = UINT32_MAX;

// A task of the world. What happens at its end can be learnt in two ways: by waiting for its post
// (then a put has arrived, too), or by being behind it with after_all.
struct Event {
  uint32_t queue;           // Of the world.
  int32_t index;            // In the queue.
  uint32_t line;            // Of those who learn of it alone, or kNoLine where nobody can.
  int32_t line_index;       // Among the events of the line in one run.
  uint32_t after_all_next;  // Index of the next task of the queue with after_all.
};

struct WorldQueue {
  uint32_t rank, queue;
  uint32_t first_event, count;
};

class Events {
 public:
  // Lines are kept per rank that the tasks tell, so that there are few of them; or, where clocks
  // tell by pairs and have no ranges, per signal, on which tasks are learnt of in order.
  Events(const Plan& plan, Telling telling);

  uint32_t event(uint32_t queue, uint32_t index) const {
    return queues_[queue].first_event + index;
  }
  const WorldSignals& signals() const { return signals_; }
  const Event& operator[](uint32_t event) const { return events_[event]; }
  const std::vector<WorldQueue>& queues() const { return queues_; }
  uint32_t first_queue(uint32_t rank) const { return first_queue_[rank]; }
  Where where(const Plan& plan, uint32_t event) const {
    const Event& e = events_[event];
    const WorldQueue& queue = queues_[e.queue];
    return {plan.ranks[queue.rank], queue.queue, uint32_t(e.index)};
  }
  const Task& task(const Plan& plan, uint32_t event) const { return where(plan, event).task(); }

  // Lines: per rank the runs begun and the runs awaited, per queue the tasks finished, and lines of
  // single events: the tasks of a queue that post to the same rank first.
  uint32_t begun_line(uint32_t rank) const { return blocks_.general[rank].first; }
  uint32_t awaited_line(uint32_t rank) const { return blocks_.general[rank].first + 1; }
  uint32_t finished_line(uint32_t queue) const {
    const uint32_t rank = queues_[queue].rank;
    return blocks_.general[rank].first + 2 + queue - first_queue_[rank];
  }
  uint32_t line_count() const { return uint32_t(per_run_.size()); }
  const LineBlocks& blocks() const { return blocks_; }

  // The end of `event` in run `run` as learnt by its post.
  void learn(Clocks& clocks, uint32_t& clock, uint32_t event, int32_t run) const;
  bool knows_post(const Clocks& clocks, uint32_t clock, uint32_t event, int32_t run) const {
    const Event& e = events_[event];
    return e.line != kNoLine && clocks.knows(clock, e.line, run * per_run_[e.line] + e.line_index);
  }
  // Its end at its own rank: for a put, that its source has been read.
  bool knows_end(const Clocks& clocks, uint32_t clock, uint32_t event, int32_t run) const {
    const Event& e = events_[event];
    const int32_t finished = clocks.prefix(clock, finished_line(e.queue));
    return run * int32_t(queues_[e.queue].count) + e.index < finished ||
           knows_post(clocks, clock, event, run);
  }

 private:
  class LineNames;

  WorldSignals signals_;
  std::vector<Event> events_;
  std::vector<WorldQueue> queues_;
  std::vector<uint32_t> first_queue_;
  std::vector<int32_t> per_run_;  // Events of a line in one run, by line.
  LineBlocks blocks_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_EVENTS_H_
