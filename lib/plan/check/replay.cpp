#include "lib/plan/check/replay.h"

#include <algorithm>
#include <utility>

#include "lib/plan/check/signal_log.h"

namespace sk::check {
namespace {

class Replay {
 public:
  Replay(const Plan& plan, const Events& events, const Footprint& footprint,
         const Observer* observer, const std::vector<bool>& no_chain, int32_t runs, Telling telling,
         Budget& budget)
      : plan_(plan),
        events_(events),
        observer_(observer),
        budget_(budget),
        runs_(runs),
        stops_behind_await_(touching_ranks_are_peers(plan)),
        clocks_(events.line_count(), events.blocks(), telling, budget),
        cells_(plan, events, footprint, clocks_, budget),
        logs_(make_logs(plan, events, no_chain)),
        ranks_(plan.ranks.size()),
        queues_(events.queues().size()) {}

  Status run() {
    for (uint32_t rank = 0; rank < ranks_.size() && !budget_.exhausted(); ++rank) {
      uint32_t clock = clocks_.make();
      SK_RETURN_IF_ERROR(begin(rank, clock));
    }
    SK_RETURN_IF_ERROR(advance_all());
    if (!stopped_.empty()) {
      if (all_stopped()) return Status();
      stops_behind_await_ = false;
      ready_.swap(stopped_);
      SK_RETURN_IF_ERROR(advance_all());
    }
    for (const RankState& rank : ranks_) {
      if (rank.run < runs_) return budget_.exhausted() ? budget_.status() : deadlock();
    }
    return Status();
  }

  // Signals of which waits wanted a part, and whose posts turned out not to follow one another.
  const std::vector<uint32_t>& broken_chains() const { return broken_; }

 private:
  struct RankState {
    int32_t run = 0;           // The run that it is in; `runs` when all are over.
    uint32_t open_queues = 0;  // Not at their end in this run.
    int32_t entered = 0;       // Enter tasks that it has started.
    int32_t admitted = 0;      // Runs in which its first queue has awaited the peers.
    uint32_t enter_event = 0;
    // What it knew in each run: a rank may enter the next one before its peers have awaited this.
    std::vector<uint32_t> enter_clocks;
    uint32_t waiting = SignalLog::kNobody;            // The last queue that waits for it to enter.
    uint32_t waiting_admission = SignalLog::kNobody;  // Of its own, for its first queue's await.
  };
  struct QueueState {
    uint32_t next = 0;
    uint32_t clock = Clocks::kNone;
    uint32_t waits_behind = SignalLog::kNobody;  // A queue waits for one thing at a time.
  };

  Status advance_all() {
    while (!ready_.empty()) {
      if (budget_.exhausted()) return budget_.status();
      const uint32_t queue = ready_.back();
      ready_.pop_back();
      SK_RETURN_IF_ERROR(advance(queue));
    }
    return Status();
  }

  static bool touching_ranks_are_peers(const Plan& plan) {
    std::vector<uint32_t> touching;
    for (const RankPlan& part : plan.ranks) {
      if (std::any_of(part.tasks.begin(), part.tasks.end(),
                      [](const Task& task) { return task.region_count > 0; })) {
        touching.push_back(part.rank);
      }
    }
    return std::all_of(touching.begin(), touching.end(), [&](uint32_t rank) {
      std::vector<uint32_t> company = plan.ranks[rank].peers;
      company.insert(std::upper_bound(company.begin(), company.end(), rank), rank);
      return std::includes(company.begin(), company.end(), touching.begin(), touching.end());
    });
  }

  // Whether this queue, in a run behind the first, needs no look any more.
  bool stops(const WorldQueue& place, const QueueState& state) const {
    const int32_t run = ranks_[place.rank].run;
    return stops_behind_await_ && run > 0 &&
           clocks_.prefix(state.clock, events_.awaited_line(place.rank)) > run;
  }

  // Whether nothing is left but what lies behind an await of every rank's second run.
  bool all_stopped() const {
    std::vector<bool> seen(ranks_.size(), false), here(queues_.size(), false);
    for (const uint32_t queue : stopped_) {
      here[queue] = true;
      seen[events_.queues()[queue].rank] = true;
    }
    for (uint32_t queue = 0; queue < queues_.size(); ++queue) {
      const WorldQueue& place = events_.queues()[queue];
      const bool over = ranks_[place.rank].run >= runs_ ||
                        (seen[place.rank] && (here[queue] || queues_[queue].next == place.count));
      if (!over) return false;
    }
    return true;
  }

  // Begins the rank's run with what `clock` knows, and takes the clock over. A rank with nothing to
  // do ends its runs at once.
  Status begin(uint32_t rank, uint32_t clock) {
    RankState& state = ranks_[rank];
    const uint32_t first = events_.first_queue(rank), last = events_.first_queue(rank + 1);
    for (;;) {
      SK_RETURN_IF_ERROR(cells_.touch_between(rank, clock, state.run));
      if (state.run == runs_) break;
      clocks_.raise(clock, events_.begun_line(rank), state.run + 1);
      state.open_queues = 0;
      for (uint32_t q = first; q < last; ++q) {
        if (events_.queues()[q].count == 0) continue;
        ++state.open_queues;
        queues_[q].next = 0;
        queues_[q].clock = clocks_.share(clock);
        ready_.push_back(q);
      }
      if (state.open_queues > 0) break;
      if (state.run == 0 && observer_) observer_->end(rank);
      ++state.run;
    }
    clocks_.drop(clock);
    return Status();
  }

  Status advance(uint32_t queue) {
    const WorldQueue& place = events_.queues()[queue];
    QueueState& state = queues_[queue];
    while (state.next < place.count) {
      if (stops(place, state)) {
        stopped_.push_back(queue);
        return Status();
      }
      const uint32_t event = place.first_event + state.next;
      const Where where = events_.where(plan_, event);
      budget_.spend(4 + where.task().wait_count + where.task().post_count);
      if (budget_.exhausted()) return budget_.status();
      if (blocked(queue, where)) return Status();
      SK_RETURN_IF_ERROR(start(queue, event, where));
      ++state.next;
    }
    return --ranks_[place.rank].open_queues == 0 ? end(place.rank) : Status();
  }

  // Whether the task cannot start yet; then the queue is woken by what it waits for.
  bool blocked(uint32_t queue, const Where& where) {
    const uint32_t rank = where.part.rank;
    const uint64_t run = uint64_t(ranks_[rank].run);
    for (const Wait& wait : where.part.waits_of(where.task())) {
      SignalLog& log = logs_.of(rank, wait);
      if (log.total >= run * log.per_run + wait.target) continue;
      queues_[queue].waits_behind = std::exchange(log.waiting, queue);
      return true;
    }
    if (where.task().op != TaskOp::kAwait) return false;
    // The first queue's await looks at the peers' entries for all of them.
    if (events_.queues()[queue].queue != 0 && ranks_[rank].admitted <= ranks_[rank].run) {
      queues_[queue].waits_behind = std::exchange(ranks_[rank].waiting_admission, queue);
      return true;
    }
    for (const uint32_t peer : where.part.peers) {
      if (ranks_[peer].entered > ranks_[rank].run) continue;
      queues_[queue].waits_behind = std::exchange(ranks_[peer].waiting, queue);
      return true;
    }
    return false;
  }

  Status start(uint32_t queue, uint32_t event, const Where& where) {
    const Task& task = where.task();
    const uint32_t rank = where.part.rank;
    const int32_t run = ranks_[rank].run;
    uint32_t& clock = queues_[queue].clock;
    if (task.flags & kAfterAll) finish_before(clock, event, run);
    for (const Wait& wait : where.part.waits_of(task)) {
      SignalLog& log = logs_.of(rank, wait);
      logs_.told_by(log, wait.target, told_);
      for (const PostRecord& post : told_) {
        if (events_.knows_post(clocks_, clock, post.event, run)) continue;  // And all that it knew.
        clocks_.hear_note(clock, post.note, rank_of(post.event), rank);
        // The note is what the task knew when it started: less than its post tells.
        if (posts_in_order(post.event)) finish_before(clock, post.event, run);
        events_.learn(clocks_, clock, post.event, run);
      }
    }
    if (task.op == TaskOp::kAwait) {
      for (const uint32_t peer : where.part.peers) {
        const RankState& other = ranks_[peer];
        if (events_.knows_post(clocks_, clock, other.enter_event, run)) continue;
        clocks_.hear(clock, other.enter_clocks[uint32_t(run)], peer, rank);
        events_.learn(clocks_, clock, other.enter_event, run);
      }
      clocks_.raise(clock, events_.awaited_line(rank), run + 1);
      if (events_.queues()[queue].queue == 0) {
        ranks_[rank].admitted = run + 1;
        wake(ranks_[rank].waiting_admission);
      }
    }
    SK_RETURN_IF_ERROR(check_awaited(where, clock, run));
    SK_RETURN_IF_ERROR(cells_.touch(event, clock, run));
    if (run == 0 && observer_) observer_->task(where);
    if (task.op == TaskOp::kEnter) enter(rank, event, clock);
    for (const Post& post : where.part.posts_of(task)) record(post, event, clock, run);
    return Status();
  }

  bool posts_in_order(uint32_t event) const {
    return (events_.task(plan_, event).flags & kPostsInOrder) != 0;
  }

  // Has `clock` know that all earlier tasks of the event's queue have finished.
  void finish_before(uint32_t& clock, uint32_t event, int32_t run) {
    const Event& e = events_[event];
    const int32_t before = run * int32_t(events_.queues()[e.queue].count) + e.index;
    clocks_.raise(clock, events_.finished_line(e.queue), before);
  }

  uint32_t rank_of(uint32_t event) const { return events_.queues()[events_[event].queue].rank; }

  // Until the peers are known to have entered the same call, they may be in another one: nothing of
  // theirs may be touched, nor workspace that they may still be using.
  Status check_awaited(const Where& where, uint32_t clock, int32_t run) const {
    const RankPlan& part = where.part;
    if (part.peers.empty()) return Status();
    if (clocks_.prefix(clock, events_.awaited_line(part.rank)) > run) return Status();
    const Task& task = where.task();
    for (const Post& post : part.posts_of(task)) {
      return refuse('g', "{} posts to rank {} before it has awaited its peers", where, post.rank);
    }
    for (uint32_t i = 0; i < task.region_count; ++i) {
      const Region& region = part.regions_of(task)[i];
      if (region.row_bytes == 0) continue;
      const std::optional<uint64_t> own =
          signature_of(task.op)->own_entry(part.params_of(task), i, task.region_count);
      for (uint32_t j = 0; j < region.buffer_count; ++j) {
        const Buffer& buffer = plan_.buffers[region.buffer + j];
        if (own == j) continue;
        if (buffer.owner == part.rank &&
            (buffer.kind != BufferKind::kWorkspace || buffer.generations > 1)) {
          continue;
        }
        return refuse('c', "{} touches buffer {} of rank {} before it has awaited its peers", where,
                      region.buffer + j, buffer.owner);
      }
    }
    return Status();
  }

  void enter(uint32_t rank, uint32_t event, uint32_t clock) {
    RankState& state = ranks_[rank];
    state.enter_event = event;
    state.enter_clocks.push_back(clocks_.share(clock));
    ++state.entered;
    wake(state.waiting);
  }

  void record(const Post& post, uint32_t event, uint32_t clock, int32_t run) {
    const uint32_t index = logs_.signals.of(rank_of(event), post);
    SignalLog& log = logs_.logs[index];
    PostRecord* const here = logs_.records.data() + log.first_post + log.post_count;
    if (log.post_count > 0 && log.chain && log.assume_chain) {
      const uint32_t before = here[-1].event;
      const bool put = events_.task(plan_, before).op == TaskOp::kPut;
      const bool follows =
          before == event ||
          (put ? events_.knows_post(clocks_, clock, before, run)
               : posts_in_order(event) || events_.knows_end(clocks_, clock, before, run));
      if (!follows) {
        log.chain = false;
        if (log.partly_awaited) broken_.push_back(index);
      }
    }
    const uint64_t reach = log.post_count == 0 ? 0 : here[-1].reach;
    *here = {event, clocks_.note(clock, rank_of(event), post.rank), reach + post.add};
    ++log.post_count;
    log.total += post.add;
    wake(log.waiting);
  }

  void wake(uint32_t& waiting) {
    const ptrdiff_t first = ptrdiff_t(ready_.size());
    while (waiting != SignalLog::kNobody) {
      ready_.push_back(waiting);
      waiting = queues_[waiting].waits_behind;
      budget_.spend(1);
    }
    std::reverse(ready_.begin() + first, ready_.end());
  }

  Status end(uint32_t rank) {
    RankState& state = ranks_[rank];
    uint32_t clock = clocks_.make();
    for (uint32_t q = events_.first_queue(rank); q < events_.first_queue(rank + 1); ++q) {
      if (queues_[q].clock == Clocks::kNone) continue;
      clocks_.merge(clock, queues_[q].clock);
      clocks_.drop(queues_[q].clock);
      queues_[q].clock = Clocks::kNone;
      clocks_.raise(clock, events_.finished_line(q),
                    (state.run + 1) * int32_t(events_.queues()[q].count));
    }
    // All posts of the run have been waited for (rule g), and the next run's come after the next
    // entry: what the signals hold now is of this run.
    const uint32_t signals = uint32_t(plan_.ranks[rank].signals.size());
    for (uint32_t place = 0; place < signals; ++place) {
      SignalLog& log = logs_.logs[logs_.signals.first(rank) + place];
      for (const PostRecord& post : logs_.posts(log)) {
        clocks_.drop_note(post.note, rank_of(post.event), rank);
      }
      log.post_count = 0;
      log.chain = true;
    }
    budget_.spend(signals);
    if (state.run == 0 && observer_) observer_->end(rank);
    ++state.run;
    return begin(rank, clock);
  }

  Status deadlock() const {
    for (uint32_t q = 0; q < queues_.size(); ++q) {
      const WorldQueue& place = events_.queues()[q];
      if (ranks_[place.rank].run >= runs_ || queues_[q].next >= place.count) continue;
      const Where where = events_.where(plan_, place.first_event + queues_[q].next);
      for (const Wait& wait : where.part.waits_of(where.task())) {
        const SignalLog& log = logs_.logs[logs_.signals.of(place.rank, wait)];
        const uint64_t before = uint64_t(ranks_[place.rank].run) * log.per_run;
        if (log.total >= before + wait.target) continue;
        return refuse('a', "{} waits for ever for {} of signal {} from rank {}, which stops at {}",
                      where, wait.target, wait.signal, wait.producer,
                      log.total - std::min(log.total, before));
      }
      for (const uint32_t peer : where.part.peers) {
        if (ranks_[peer].entered > ranks_[place.rank].run) continue;
        return refuse('a', "{} waits for ever for rank {} to enter", where, peer);
      }
      if (where.task().op != TaskOp::kAwait) continue;
      return refuse('a', "{} waits for ever for the first queue's await", where);
    }
    return refuse('a', "the tasks do not finish");
  }

  const Plan& plan_;
  const Events& events_;
  const Observer* observer_;
  Budget& budget_;
  int32_t runs_;
  bool stops_behind_await_;
  Clocks clocks_;
  Cells cells_;
  SignalLogs logs_;
  std::vector<RankState> ranks_;
  std::vector<QueueState> queues_;
  std::vector<uint32_t> ready_, stopped_, broken_;
  std::vector<PostRecord> told_;
};

}  // namespace

Status replay(const Plan& plan, const Footprint& footprint, const Observer& observer,
              Telling telling, Budget& budget) {
  const Events events(plan, telling);
  SK_RETURN_IF_ERROR(check_aliases(plan, footprint, events, budget));
  const bool staged = std::any_of(plan.buffers.begin(), plan.buffers.end(),
                                  [](const Buffer& buffer) { return buffer.generations > 1; });
  std::vector<bool> no_chain;
  for (const Observer* watching = &observer;; watching = nullptr) {
    Replay world(plan, events, footprint, watching, no_chain, staged ? 3 : 2, telling, budget);
    Status status = world.run();
    if (!status.ok() && !no_chain.empty()) {
      // The likeliest cause, where a pipeline counts with one signal what comes in any order.
      return Status(status.code(), status.message() +
                                       " (posts of some signals come in any order, so that waits "
                                       "for a part of them tell nothing)");
    }
    SK_RETURN_IF_ERROR(std::move(status));
    if (world.broken_chains().empty()) return Status();
    if (telling == Telling::kPair) return refuse('c', "posts of some signals come in any order");
    size_t signals = 0;
    for (const RankPlan& part : plan.ranks) signals += part.signals.size();
    no_chain.resize(signals, false);
    for (const uint32_t log : world.broken_chains()) no_chain[log] = true;
  }
}

}  // namespace sk::check
