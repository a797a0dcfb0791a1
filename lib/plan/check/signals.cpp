#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"

namespace sk::check {
namespace {

constexpr uint32_t kNoQueue = UINT32_MAX;

// What is known of one rank's signal while the tasks are walked.
struct Use {
  uint64_t posts = 0;
  uint32_t queue = kNoQueue;  // Of the producer.
  bool all_awaited = false;
};

Status check_table(const Plan& plan, const RankPlan& part) {
  if (part.signal_count > kSignalCountMax) {
    return refuse('h', "rank {} has {} signals, at most {} are allowed", part.rank,
                  part.signal_count, kSignalCountMax);
  }
  if (part.posts_per_run.size() != part.signal_count ||
      part.signal_producers.size() != part.signal_count) {
    return refuse('0', "rank {} has {} signals, but tables of {} and {}", part.rank,
                  part.signal_count, part.posts_per_run.size(), part.signal_producers.size());
  }
  for (uint32_t signal = 0; signal < part.signal_count; ++signal) {
    if (part.signal_producers[signal] >= plan.target.world_size) {
      return refuse('0', "rank {} signal {} has producer {}", part.rank, signal,
                    part.signal_producers[signal]);
    }
  }
  return Status();
}

Status check_waits(const RankPlan& part, const Task& task, std::vector<Use>& own,
                   const Where& where) {
  for (const Wait& wait : part.waits_of(task)) {
    if (wait.signal >= part.signal_count) {
      return refuse('0', "{} waits for signal {}, there are {}", where, wait.signal,
                    part.signal_count);
    }
    if (wait.target == 0)
      return refuse('0', "{} waits for nothing of signal {}", where, wait.signal);
    if (wait.target > part.posts_per_run[wait.signal]) {
      return refuse('a', "{} waits for {} of signal {}, which grows by {} in a run", where,
                    wait.target, wait.signal, part.posts_per_run[wait.signal]);
    }
    if (wait.target == part.posts_per_run[wait.signal]) own[wait.signal].all_awaited = true;
  }
  return Status();
}

Status check_posts(const Plan& plan, const RankPlan& part, uint32_t queue, const Task& task,
                   std::vector<std::vector<Use>>& uses, const Where& where) {
  for (const Post& post : part.posts_of(task)) {
    if (post.rank >= plan.target.world_size || post.signal >= uses[post.rank].size()) {
      return refuse('0', "{} posts signal {} of rank {}, which is none", where, post.signal,
                    post.rank);
    }
    if (post.add == 0) return refuse('0', "{} adds nothing to signal {}", where, post.signal);
    if (plan.ranks[post.rank].signal_producers[post.signal] != part.rank) {
      return refuse('0', "{} posts signal {} of rank {}, whose producer is rank {}", where,
                    post.signal, post.rank, plan.ranks[post.rank].signal_producers[post.signal]);
    }
    Use& use = uses[post.rank][post.signal];
    if (use.queue != kNoQueue && use.queue != queue) {
      return refuse('0', "{} posts signal {} of rank {}, which queue {} posts too", where,
                    post.signal, post.rank, use.queue);
    }
    use.queue = queue;
    use.posts += post.add;
  }
  return Status();
}

}  // namespace

Status check_signals(const Plan& plan) {
  std::vector<std::vector<Use>> uses;
  for (const RankPlan& part : plan.ranks) {
    SK_RETURN_IF_ERROR(check_table(plan, part));
    uses.emplace_back(part.signal_count);
  }
  for (const RankPlan& part : plan.ranks) {
    for (uint32_t q = 0; q < part.queues.size(); ++q) {
      for (uint32_t i = 0; i < part.queues[q].task_count; ++i) {
        const Task& task = part.tasks[part.queues[q].first_task + i];
        if (task.wait_count == 0 && task.post_count == 0) continue;
        const Where where{part, q, i};
        SK_RETURN_IF_ERROR(check_waits(part, task, uses[part.rank], where));
        SK_RETURN_IF_ERROR(check_posts(plan, part, q, task, uses, where));
      }
    }
  }
  for (const RankPlan& part : plan.ranks) {
    for (uint32_t signal = 0; signal < part.signal_count; ++signal) {
      const Use& use = uses[part.rank][signal];
      if (use.posts != part.posts_per_run[signal]) {
        return refuse('0', "rank {} signal {} gets {} posts in a run, posts_per_run says {}",
                      part.rank, signal, use.posts, part.posts_per_run[signal]);
      }
      if (use.posts > 0 && !use.all_awaited) {
        return refuse('g',
                      "rank {} signal {}: no wait of the run is for all {} posts, so that a late "
                      "one could count for the next run",
                      part.rank, signal, use.posts);
      }
    }
  }
  return Status();
}

}  // namespace sk::check
