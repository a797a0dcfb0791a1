#include "lib/api/turns.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/futex.h"

namespace sk::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLookNs = 50'000'000;  // Between two calls of Turn::waiting.

int64_t ns_until(Clock::time_point then) {
  return std::chrono::nanoseconds(then - Clock::now()).count();
}

}  // namespace

// On the stack of the thread that waits. Once `outcome` is set nobody else uses it, but for waking
// whoever sleeps at its address, which does no harm to anybody.
struct TurnQueue::Waiter {
  std::atomic<uint32_t> outcome{uint32_t(Outcome::kNone)};
  Waiter* next = nullptr;

  Outcome is() const { return Outcome(outcome.load(std::memory_order_acquire)); }
  void tell(Outcome what) {
    std::atomic<uint32_t>& word = outcome;
    word.store(uint32_t(what), std::memory_order_release);
    futex_wake(word, 1);
  }
};

class TurnQueue::Locked {
 public:
  explicit Locked(std::atomic<bool>& lock) : lock_(lock) {
    while (lock_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~Locked() { lock_.store(false, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::atomic<bool>& lock_;
};

void TurnQueue::append(Waiter& waiter) {
  (last_ == nullptr ? first_ : last_->next) = &waiter;
  last_ = &waiter;
}

TurnQueue::Waiter* TurnQueue::take_first() {
  Waiter* const waiter = first_;
  if (waiter == nullptr) return nullptr;
  first_ = waiter->next;
  if (first_ == nullptr) last_ = nullptr;
  return waiter;
}

// Somebody may have passed the turn on meanwhile: then it is the caller's.
TurnQueue::Outcome TurnQueue::give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why) {
  const Locked locked(lock_);
  if (const Outcome told = waiter.is(); told != Outcome::kNone) return told;
  Waiter* before = nullptr;
  for (Waiter* each = first_; each != &waiter; each = each->next) before = each;
  (before == nullptr ? first_ : before->next) = waiter.next;
  if (last_ == &waiter) last_ = before;
  if (first_ == nullptr) word.fetch_and(~kAwaited, std::memory_order_relaxed);
  return why;
}

TurnQueue::Outcome TurnQueue::wait(std::atomic<uint64_t>& word, uint64_t alive, int64_t limit_ns,
                                   const Turn& turn) {
  const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(limit_ns);
  Waiter waiter;
  {
    const Locked locked(lock_);
    uint64_t is = word.load(std::memory_order_relaxed);
    for (;;) {
      if (is >> kTurnBits != alive >> kTurnBits) return Outcome::kGone;
      if ((is & kAwaited) != 0) break;
      const bool free = is == alive;
      if (!word.compare_exchange_weak(is, is | (free ? kUsed : kAwaited), std::memory_order_acquire,
                                      std::memory_order_relaxed))
        continue;
      if (free) return Outcome::kMine;
      break;
    }
    append(waiter);
  }
  Clock::time_point look = Clock::now() + std::chrono::nanoseconds(kLookNs);
  while (waiter.is() == Outcome::kNone) {
    const int64_t left = ns_until(until);
    if (left <= 0) return give_up(word, waiter, Outcome::kLate);
    const int64_t calm = turn.waiting == nullptr ? left : std::min(left, ns_until(look));
    if (calm > 0) {
      futex_wait(waiter.outcome, uint32_t(Outcome::kNone), calm);
      continue;
    }
    try {
      if (turn.waiting(turn.user) != 0) return give_up(word, waiter, Outcome::kStopped);
    } catch (...) {
      return give_up(word, waiter, Outcome::kThrew);
    }
    look = Clock::now() + std::chrono::nanoseconds(kLookNs);
  }
  return waiter.is();
}

void TurnQueue::pass(std::atomic<uint64_t>& word, uint64_t alive) {
  Waiter* next = nullptr;
  {
    const Locked locked(lock_);
    next = take_first();
    if (next == nullptr) return word.store(alive, std::memory_order_release);  // They gave up.
    if (first_ == nullptr) word.fetch_and(~kAwaited, std::memory_order_relaxed);
  }
  next->tell(Outcome::kMine);
}

void TurnQueue::end(std::atomic<uint64_t>& word) {
  const Locked locked(lock_);
  word.store(0, std::memory_order_seq_cst);
  while (Waiter* const each = take_first()) each->tell(Outcome::kGone);
}

void TurnQueue::forget() {
  lock_.store(false);
  first_ = last_ = nullptr;
}

}  // namespace sk::api
