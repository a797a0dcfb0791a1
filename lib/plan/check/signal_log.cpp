#include "lib/plan/check/signal_log.h"

#include <algorithm>
#include <utility>

namespace sk::check {
namespace {

// The posts of one signal in the order of their queue, while all queues are walked.
struct Order {
  std::vector<uint32_t> events;
  std::vector<uint64_t> adds;
};

std::vector<uint64_t> reach_without(const Plan& plan, const Events& events, const Order& order,
                                    uint64_t per_run) {
  const auto in_order = [&](size_t i) {
    return (events.task(plan, order.events[i]).flags & kPostsInOrder) != 0;
  };
  std::vector<uint64_t> reach;
  uint64_t through = 0;  // Posts of order[0, next).
  uint64_t ordered = 0;  // Of order[behind, next), the posts of later tasks, those in order.
  size_t next = 0, behind = 0;
  for (size_t i = 0; i < order.events.size(); ++i) {
    const Event& event = events[order.events[i]];
    while (next < order.events.size() &&
           uint32_t(events[order.events[next]].index) < event.after_all_next) {
      if (in_order(next)) ordered += order.adds[next];
      through += order.adds[next++];
    }
    for (; behind < next && events[order.events[behind]].index <= event.index; ++behind)
      if (in_order(behind)) ordered -= order.adds[behind];
    const bool put = events.task(plan, order.events[i]).op == TaskOp::kPut;
    reach.push_back(per_run - order.adds[i] - (put ? 0 : per_run - through + ordered));
  }
  return reach;
}

}  // namespace

void SignalLogs::told_by(const SignalLog& log, uint64_t target,
                         std::vector<PostRecord>& out) const {
  out.clear();
  const std::span<const PostRecord> told = posts(log);
  const bool all = target == log.per_run;
  if (!all && !log.assume_chain) {
    const std::vector<uint64_t>& without = reach_without[size_t(&log - logs.data())];
    for (size_t i = 0; i < told.size(); ++i) {
      if (without[i] < target) out.push_back(told[i]);
    }
  } else if (all && !(log.assume_chain && log.chain)) {
    out.assign(told.begin(), told.end());
  } else {
    const auto last =
        std::lower_bound(told.begin(), told.end(), target,
                         [](const PostRecord& post, uint64_t reach) { return post.reach < reach; });
    if (last != told.end()) out.push_back(*last);
  }
}

SignalLogs make_logs(const Plan& plan, const Events& events, const std::vector<bool>& no_chain) {
  SignalLogs made{events.signals(), {}, {}, {}};
  made.logs.reserve(made.signals.count());
  for (const RankPlan& part : plan.ranks) {
    for (const Signal& signal : part.signals) {
      SignalLog& log = made.logs.emplace_back();
      log.per_run = signal.posts_per_run;
      log.assume_chain = no_chain.empty() || !no_chain[made.logs.size() - 1];
    }
  }
  for (const RankPlan& part : plan.ranks) {
    for (const Task& task : part.tasks) {
      for (const Wait& wait : part.waits_of(task)) {
        SignalLog& log = made.of(part.rank, wait);
        if (wait.target < log.per_run) log.partly_awaited = true;
      }
      for (const Post& post : part.posts_of(task)) ++made.of(part.rank, post).post_count;
    }
  }
  uint32_t records = 0;
  for (SignalLog& log : made.logs) {
    log.first_post = records;
    records += std::exchange(log.post_count, 0);
  }
  made.records.resize(records);
  if (no_chain.empty()) return made;
  std::vector<Order> orders(made.logs.size());
  for (const WorldQueue& queue : events.queues()) {
    for (uint32_t i = 0; i < queue.count; ++i) {
      const uint32_t event = queue.first_event + i;
      const Where where = events.where(plan, event);
      for (const Post& post : where.part.posts_of(where.task())) {
        const uint32_t log = made.signals.of(where.part.rank, post);
        if (!no_chain[log]) continue;
        orders[log].events.push_back(event);
        orders[log].adds.push_back(post.add);
      }
    }
  }
  made.reach_without.resize(orders.size());
  for (size_t i = 0; i < orders.size(); ++i) {
    if (no_chain[i]) {
      made.reach_without[i] = reach_without(plan, events, orders[i], made.logs[i].per_run);
    }
  }
  return made;
}

}  // namespace sk::check
