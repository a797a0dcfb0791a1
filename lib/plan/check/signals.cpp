#include <utility>

#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"
#include "lib/plan/check/world_signals.h"

namespace sk::check {
namespace {

constexpr uint32_t kNoQueue = UINT32_MAX;

// What is known of a signal while the tasks are walked.
struct Use {
  uint64_t posts = 0;
  uint32_t queue = kNoQueue;  // Of the producer.
  bool all_awaited = false;
};

std::string name_of(const RankPlan& part, const Signal& signal) {
  return fmt::format("rank {} signal {} from rank {}", part.rank, signal.number, signal.producer);
}

Status check_table(const Plan& plan, const RankPlan& part) {
  const Signal* before = nullptr;
  for (const Signal& signal : part.signals) {
    if (signal.producer >= plan.ranks.size())
      return refuse('0', "{} comes from no rank of {}", name_of(part, signal), plan.ranks.size());
    if (signal.number >= kEdgeSignalsMax)
      return refuse('h', "{} is not below {}", name_of(part, signal), kEdgeSignalsMax);
    if (signal.posts_per_run == 0) return refuse('0', "{} gets no posts", name_of(part, signal));
    if (before != nullptr &&
        std::pair(before->producer, before->number) >= std::pair(signal.producer, signal.number)) {
      return refuse('0', "{} stands behind signal {} from rank {}", name_of(part, signal),
                    before->number, before->producer);
    }
    before = &signal;
  }
  return Status();
}

Status check_waits(const RankPlan& part, const Task& task, const WorldSignals& signals,
                   std::vector<Use>& uses, const Where& where) {
  for (const Wait& wait : part.waits_of(task)) {
    const uint32_t index = signals.of(part.rank, wait);
    if (index == kNoSignal) {
      return refuse('0', "{} waits for signal {} from rank {}, which is none", where, wait.signal,
                    wait.producer);
    }
    const uint32_t posts = part.signals[index - signals.first(part.rank)].posts_per_run;
    if (wait.target == 0) {
      return refuse('0', "{} waits for nothing of signal {} from rank {}", where, wait.signal,
                    wait.producer);
    }
    if (wait.target > posts) {
      return refuse('a', "{} waits for {} of signal {} from rank {}, which grows by {} in a run",
                    where, wait.target, wait.signal, wait.producer, posts);
    }
    if (wait.target == posts) uses[index].all_awaited = true;
  }
  return Status();
}

Status check_posts(const RankPlan& part, uint32_t queue, const Task& task,
                   const WorldSignals& signals, std::vector<Use>& uses, const Where& where) {
  for (const Post& post : part.posts_of(task)) {
    const uint32_t index = signals.of(part.rank, post);
    if (index == kNoSignal) {
      return refuse('0', "{} posts signal {} to rank {}, which is none", where, post.signal,
                    post.rank);
    }
    if (post.add == 0) {
      return refuse('0', "{} adds nothing to signal {} to rank {}", where, post.signal, post.rank);
    }
    Use& use = uses[index];
    if (use.queue != kNoQueue && use.queue != queue) {
      return refuse('0', "{} posts signal {} to rank {}, which queue {} posts too", where,
                    post.signal, post.rank, use.queue);
    }
    use.queue = queue;
    use.posts += post.add;
  }
  return Status();
}

}  // namespace

Status check_signals(const Plan& plan) {
  for (const RankPlan& part : plan.ranks) SK_RETURN_IF_ERROR(check_table(plan, part));
  const WorldSignals signals(plan);
  std::vector<Use> uses(signals.count());
  for (const RankPlan& part : plan.ranks) {
    for (uint32_t q = 0; q < part.queues.size(); ++q) {
      for (uint32_t i = 0; i < part.queues[q].task_count; ++i) {
        const Task& task = part.tasks[part.queues[q].first_task + i];
        if (task.wait_count == 0 && task.post_count == 0) continue;
        const Where where{part, q, i};
        SK_RETURN_IF_ERROR(check_waits(part, task, signals, uses, where));
        SK_RETURN_IF_ERROR(check_posts(part, q, task, signals, uses, where));
      }
    }
  }
  for (const RankPlan& part : plan.ranks) {
    for (uint32_t place = 0; place < part.signals.size(); ++place) {
      const Signal& signal = part.signals[place];
      const Use& use = uses[signals.first(part.rank) + place];
      if (use.posts != signal.posts_per_run) {
        return refuse('0', "{} gets {} posts in a run, posts_per_run says {}",
                      name_of(part, signal), use.posts, signal.posts_per_run);
      }
      if (!use.all_awaited) {
        return refuse('g',
                      "{}: no wait of the run is for all {} posts, so that a late one could count "
                      "for the next run",
                      name_of(part, signal), use.posts);
      }
    }
  }
  return Status();
}

}  // namespace sk::check
