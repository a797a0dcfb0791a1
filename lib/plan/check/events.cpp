#include "lib/plan/check/events.h"

namespace sk::check {

// Finds the line of a task while lines are not numbered yet: a block, and a place in it. Puts lie
// on lines of their own, because after_all says nothing of their arrival.
class Events::LineNames {
 public:
  struct Name {
    uint32_t block = kNoLine, place = 0;
  };

  LineNames(const Plan& plan, const WorldSignals& signals, Telling telling)
      : signals_(signals),
        ranks_(uint32_t(plan.ranks.size())),
        by_signal_(telling == Telling::kPair),
        sizes_(ranks_ + (by_signal_ ? size_t(ranks_) * ranks_ : ranks_), 0) {
    for (const RankPlan& part : plan.ranks) {
      sizes_[part.rank] = 2 + uint32_t(part.queues.size());
    }
  }

  // Blocks: what is told to all ranks, by rank, then what is told to one.
  const std::vector<uint32_t>& sizes() const { return sizes_; }

  void begin_queue() {
    // A signal has one posting queue, so that names by signal serve all queues.
    if (!by_signal_ || names_.empty())
      names_.assign(3 * (by_signal_ ? signals_.count() : ranks_), {});
    enter_ = {};
  }

  Name of(const RankPlan& part, const Task& task) {
    if (task.op == TaskOp::kEnter) return known(enter_, part.rank);
    if (task.post_count == 0) return {};
    const Post& post = part.posts_of(task)[0];
    const bool put = task.op == TaskOp::kPut, many = task.post_count > 1 && by_signal_;
    const uint32_t subject = by_signal_ ? signals_.of(part.rank, post) : post.rank;
    const uint32_t block = many         ? part.rank
                           : by_signal_ ? ranks_ + part.rank * ranks_ + post.rank
                                        : ranks_ + part.rank;
    return known(names_[3 * size_t(subject) + (put ? 1 : many ? 2 : 0)], block);
  }

 private:
  Name known(Name& name, uint32_t block) {
    if (name.block == kNoLine) name = {block, sizes_[block]++};
    return name;
  }

  const WorldSignals& signals_;
  uint32_t ranks_;
  bool by_signal_;
  std::vector<uint32_t> sizes_;
  std::vector<Name> names_;
  Name enter_;
};

Events::Events(const Plan& plan, Telling telling) : signals_(plan) {
  const uint32_t ranks = uint32_t(plan.ranks.size());
  size_t tasks = 0;
  for (const RankPlan& part : plan.ranks) {
    first_queue_.push_back(uint32_t(queues_.size()));
    for (uint32_t q = 0; q < part.queues.size(); ++q) {
      queues_.push_back({part.rank, q, 0, part.queues[q].task_count});
    }
    tasks += part.tasks.size();
  }
  first_queue_.push_back(uint32_t(queues_.size()));
  events_.reserve(tasks);
  LineNames names(plan, signals_, telling);
  std::vector<LineNames::Name> lines;
  lines.reserve(tasks);
  for (uint32_t q = 0; q < queues_.size(); ++q) {
    WorldQueue& queue = queues_[q];
    queue.first_event = uint32_t(events_.size());
    const RankPlan& part = plan.ranks[queue.rank];
    names.begin_queue();
    for (uint32_t i = 0; i < queue.count; ++i) {
      lines.push_back(names.of(part, part.tasks[part.queues[queue.queue].first_task + i]));
      events_.push_back({q, int32_t(i), kNoLine, 0, 0});
    }
    uint32_t after_all_next = queue.count;
    for (uint32_t i = queue.count; i-- > 0;) {
      events_[queue.first_event + i].after_all_next = after_all_next;
      const Task& task = part.tasks[part.queues[queue.queue].first_task + i];
      if (task.flags & kAfterAll) after_all_next = i;
    }
  }
  std::vector<uint32_t> first;
  uint32_t line_count = 0;
  for (const uint32_t size : names.sizes()) {
    first.push_back(line_count);
    line_count += size;
  }
  first.push_back(line_count);
  per_run_.assign(line_count, 0);
  for (size_t i = 0; i < events_.size(); ++i) {
    if (lines[i].block == kNoLine) continue;
    events_[i].line = first[lines[i].block] + lines[i].place;
    events_[i].line_index = per_run_[events_[i].line]++;
  }
  blocks_.ranks = ranks;
  for (size_t block = 0; block < names.sizes().size(); ++block) {
    (block < ranks ? blocks_.general : blocks_.pairs).push_back({first[block], first[block + 1]});
  }
}

void Events::learn(Clocks& clocks, uint32_t& clock, uint32_t event, int32_t run) const {
  const Event& e = events_[event];
  clocks.learn(clock, e.line, run * per_run_[e.line] + e.line_index);
}

}  // namespace sk::check
