// What a wait tells: the posts without which it could not have been met.
//
// All posts of a signal come from one queue, so they start in order; they need not end in order.
// Where each post knows that the one before it is over, the posts are a chain: a wait for t tells
// of the shortest beginning that adds up to t, and its last post knows the others. That each post
// follows the one before may itself rest on what waits for this signal tell (credits do), so it is
// assumed first and checked on the way. The check is sound: in any real execution, look at the
// first wait that was met without a post it is said to tell of; a later post of the chain counted
// instead, but that one was posted knowing the missing one to be over, and it was posted earlier.
// Signals whose posts turn out to be no chain are replayed again with what after_all and
// posts_in_order alone guarantee.
#ifndef SK_LIB_PLAN_CHECK_SIGNAL_LOG_H_
#define SK_LIB_PLAN_CHECK_SIGNAL_LOG_H_

#include <span>
#include <vector>

#include "lib/plan/check/events.h"

namespace sk::check {

struct PostRecord {
  uint32_t event;
  uint32_t note;   // What the posting task knew.
  uint64_t reach;  // Of the signal in this run, with this post and those before it.
};

struct SignalLog {
  uint64_t total = 0;  // Of all runs.
  uint64_t per_run = 0;
  bool partly_awaited = false;  // Some wait is for less than a run's posts.
  bool assume_chain = true;
  bool chain = true;  // So far, in this run.
  // Of this run, in the order of their queue: records [first_post, first_post + post_count).
  uint32_t first_post = 0, post_count = 0;
  uint32_t waiting =
      kNobody;  // The last queue that waits for growth; each names the one before it.

  static constexpr uint32_t kNobody = UINT32_MAX;
};

// One per signal of the world, in the order of `signals`.
struct SignalLogs {
  const WorldSignals& signals;
  std::vector<SignalLog> logs;
  std::vector<PostRecord> records;  // Room for a run of every signal's posts.
  // Where no chain is assumed, per signal and post: what the signal can reach in a run if that post
  // does not come, by after_all and posts_in_order alone.
  std::vector<std::vector<uint64_t>> reach_without;

  // Of a wait, or a post, of one of the rank's tasks.
  SignalLog& of(uint32_t rank, const Wait& wait) { return logs[signals.of(rank, wait)]; }
  SignalLog& of(uint32_t rank, const Post& post) { return logs[signals.of(rank, post)]; }
  std::span<const PostRecord> posts(const SignalLog& log) const {
    return std::span(records).subspan(log.first_post, log.post_count);
  }
  // Those of its posts that a wait for `target` tells of and that imply all others.
  void told_by(const SignalLog& log, uint64_t target, std::vector<PostRecord>& out) const;
};
// `no_chain` says by index which signals are known to be none; empty is none of them.
SignalLogs make_logs(const Plan& plan, const Events& events, const std::vector<bool>& no_chain);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_SIGNAL_LOG_H_
