#include "lib/api/turns.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/inside_callback.h"
#include "lib/base/spin.h"

namespace sk::api {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = TurnQueue::Outcome;

// Longer than most small calls, and about what it takes to sleep and be woken.
constexpr std::chrono::microseconds kSpin{5};
// Whoever has waited so long is given the turn, and so long after one was given no other is.
constexpr std::chrono::microseconds kPatience{100};

int64_t ns_until(Clock::time_point then) {
  return std::chrono::nanoseconds(then - Clock::now()).count();
}

Clock::time_point asks_next() {
  return Clock::now() + std::chrono::nanoseconds(Interruption::kAskNs);
}

Outcome ask_both(const Turn& turn) {
  if (turn.interruption.is_due()) return Outcome::kInterrupted;
  const InsideCallback inside("options.waiting");
  try {
    const bool stops = turn.waiting != nullptr && turn.waiting(turn.user) != 0;
    return stops ? Outcome::kStopped : Outcome::kNone;
  } catch (...) {
    return Outcome::kThrew;
  }
}

// A child that one of the functions forked, and that came back from it, has nobody's turn.
Outcome ask(const Turn& turn) {
  const pid_t process = getpid();
  const Outcome answer = ask_both(turn);
  return getpid() == process ? answer : Outcome::kForked;
}

bool is_final(Outcome outcome) { return outcome != Outcome::kNone && outcome != Outcome::kLook; }

}  // namespace

// On the stack of the thread that waits. Once a final `outcome` is set nobody else uses it, but for
// waking whoever sleeps at its address, which does no harm to anybody.
struct TurnQueue::Waiter {
  uint64_t mine;
  Clock::time_point asks_at;
  Clock::time_point due;         // From then on it is given the turn.
  Clock::time_point looks_at{};  // Where it will look by itself.
  std::atomic<uint32_t> outcome{uint32_t(Outcome::kNone)};
  bool ends;
  bool watches = false;  // It will look by itself.
  bool aside = false;
  Waiter* next = nullptr;

  Outcome told() const { return Outcome(outcome.load(std::memory_order_acquire)); }
  void tell(Outcome what) { outcome.store(uint32_t(what), std::memory_order_release); }
  bool is_seen_to() const { return watches || told() == Outcome::kLook; }
};

void TurnQueue::append(Waiter& waiter) {
  waiter.next = last_ == nullptr ? &waiter : std::exchange(last_->next, &waiter);
  last_ = &waiter;
}

void TurnQueue::drop(Waiter& waiter) {
  Waiter* before = last_;
  while (before->next != &waiter) before = before->next;
  before->next = waiter.next;
  if (last_ == &waiter) last_ = before == &waiter ? nullptr : before;
}

TurnQueue::Waiter* TurnQueue::longest_waiting() const {
  if (last_ == nullptr) return nullptr;
  Waiter* each = last_->next;
  while (each->aside && each != last_) each = each->next;
  return each->aside ? nullptr : each;
}

bool TurnQueue::take_soon(std::atomic<uint64_t>& word, uint64_t mine) {
  if (!has_several_cpus()) return false;
  const uint64_t alive = mine & ~kTurnMask;
  const Clock::time_point until = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 8; ++i) {
      uint64_t is = word.load(std::memory_order_relaxed);
      if (is == alive && word.compare_exchange_strong(is, mine, std::memory_order_seq_cst))
        return true;
      if (is >> kTurnBits != alive >> kTurnBits || (is & kEnding) != 0) return false;
      relax();
    }
  } while (Clock::now() < until);
  return false;
}

// The turn, where nobody has it.
Outcome TurnQueue::take(std::atomic<uint64_t>& word, const Waiter& waiter) const {
  const uint64_t alive = waiter.mine & ~kTurnMask;
  uint64_t is = word.load(std::memory_order_relaxed);
  for (;;) {
    if (is >> kTurnBits != alive >> kTurnBits) return Outcome::kGone;
    if (refuses_ && !waiter.ends) return Outcome::kEnds;
    if (is != alive) return Outcome::kNone;
    if (word.compare_exchange_weak(is, waiter.mine, std::memory_order_seq_cst,
                                   std::memory_order_relaxed))
      return Outcome::kMine;
  }
}

// The same for one in the queue, which it leaves then.
Outcome TurnQueue::take_queued(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Outcome outcome = take(word, waiter);
  if (outcome == Outcome::kNone) return outcome;
  drop(waiter);
  if (outcome == Outcome::kMine) word.fetch_or(next_waits(), std::memory_order_relaxed);
  return outcome;
}

// Somebody of the queue has the turn: what its word has of whoever comes next, who waits a while
// from now.
uint64_t TurnQueue::next_waits() const {
  Waiter* const next = longest_waiting();
  if (next == nullptr) return 0;
  next->due = std::max(next->due, Clock::now() + kPatience);
  return kAwaited;
}

// Sees to it that the first of those who wait hears of the turn.
void TurnQueue::attend(std::atomic<uint64_t>& word) {
  Waiter* const next = longest_waiting();
  if (next == nullptr) {
    word.fetch_and(~kAwaited, std::memory_order_relaxed);
    return;
  }
  if (next->is_seen_to()) return;
  uint64_t is = word.load(std::memory_order_relaxed);
  while ((is & kClaimMask) != 0) {
    if ((is & kAwaited) != 0) return;
    if (word.compare_exchange_weak(is, is | kAwaited, std::memory_order_relaxed)) return;
  }
  next->tell(Outcome::kLook);
  futex_wake(next->outcome, 1);
}

Outcome TurnQueue::enter(std::atomic<uint64_t>& word, Waiter& waiter) {
  const std::scoped_lock locked(lock_);
  if (const Outcome outcome = take(word, waiter); outcome != Outcome::kNone) return outcome;
  if (waiter.ends) {
    refuses_ = true;
    tell_all(Outcome::kEnds);
  }
  append(waiter);
  attend(word);
  return Outcome::kNone;
}

// With the queue locked. kLook: from here on the turn is given to it.
Outcome TurnQueue::look_once(std::atomic<uint64_t>& word, Waiter& waiter) {
  if (const Outcome told = waiter.told(); is_final(told)) return told;
  waiter.tell(Outcome::kNone);
  waiter.watches = false;
  const bool is_next = longest_waiting() == &waiter;
  if (is_next) {
    if (const Outcome outcome = take_queued(word, waiter); outcome != Outcome::kNone)
      return outcome;
    waiter.watches = Clock::now() < waiter.due;
    waiter.looks_at = waiter.due;
  }
  attend(word);
  return is_next && !waiter.watches ? Outcome::kLook : Outcome::kNone;
}

// Of one that was woken for it, or whose while is over.
Outcome TurnQueue::look(std::atomic<uint64_t>& word, Waiter& waiter) {
  std::unique_lock locked(lock_);
  const Outcome outcome = look_once(word, waiter);
  locked.unlock();
  if (outcome != Outcome::kLook) return outcome;
  // Soon, if calls are small.
  const Clock::time_point until = Clock::now() + kSpin;
  while (waiter.told() == Outcome::kNone && has_several_cpus() && Clock::now() < until) relax();
  const Outcome told = waiter.told();
  return is_final(told) ? told : Outcome::kNone;
}

Outcome TurnQueue::rest(std::atomic<uint64_t>& word, Waiter& waiter, int64_t ns) {
  if (waiter.watches) {
    ns = std::min(ns, ns_until(waiter.looks_at));
    if (ns <= 0) return look(word, waiter);
  }
  futex_wait(waiter.outcome, uint32_t(Outcome::kNone), ns);
  const Outcome told = waiter.told();
  return told == Outcome::kLook ? look(word, waiter) : told;
}

Outcome TurnQueue::step_aside(const Of& of, Waiter& waiter) {
  const std::scoped_lock locked(lock_);
  if (const Outcome told = waiter.told(); is_final(told)) return told;
  waiter.tell(Outcome::kNone);
  waiter.watches = false;
  waiter.aside = true;
  // Whoever ends the object finds the pin: it has refused all who wait, with the queue locked,
  // before it looks.
  of.pins.fetch_add(1, std::memory_order_seq_cst);
  attend(of.word);
  return Outcome::kNone;
}

Outcome TurnQueue::step_back(std::atomic<uint64_t>& word, Waiter& waiter) {
  const std::scoped_lock locked(lock_);
  if (const Outcome told = waiter.told(); is_final(told)) return told;
  const Outcome outcome = take_queued(word, waiter);
  if (outcome != Outcome::kNone) return outcome;
  waiter.aside = false;
  attend(word);
  return outcome;
}

// Somebody may have passed the turn on meanwhile: then it is the caller's.
Outcome TurnQueue::give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why) {
  const std::scoped_lock locked(lock_);
  if (const Outcome told = waiter.told(); is_final(told)) return told;
  drop(waiter);
  if (waiter.ends) refuses_ = false;
  attend(word);
  return why;
}

// Asks, passed over meanwhile.
Outcome TurnQueue::ask_aside(const Of& of, Waiter& waiter, const Turn& turn) {
  if (const Outcome told = step_aside(of, waiter); told != Outcome::kNone) return told;
  const Outcome answer = ask(turn);
  // Of the parent's queue nothing is touched: whoever had its lock is not here to leave it.
  if (answer == Outcome::kForked) return answer;
  unpin(of.word, of.pins);
  if (answer != Outcome::kNone) return give_up(of.word, waiter, answer);
  waiter.asks_at = asks_next();
  return step_back(of.word, waiter);
}

Outcome TurnQueue::wait(const Of& of, uint64_t mine, int64_t limit_ns, const Turn& turn) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point until = now + std::chrono::nanoseconds(limit_ns);
  const bool asks = turn.waiting != nullptr || turn.interruption.function != nullptr;
  Waiter waiter{.mine = mine,
                .asks_at = asks ? asks_next() : Clock::time_point::max(),
                .due = turn.ends ? now : now + kPatience,
                .ends = turn.ends};
  Outcome outcome = enter(of.word, waiter);
  while (outcome == Outcome::kNone) {
    const int64_t left = ns_until(until);
    if (left <= 0) return give_up(of.word, waiter, Outcome::kLate);
    const int64_t calm = asks ? std::min(left, ns_until(waiter.asks_at)) : left;
    outcome = calm > 0 ? rest(of.word, waiter, calm) : ask_aside(of, waiter, turn);
  }
  return outcome;
}

// Given in the waiter's name before it hears of it. It is told while the queue is locked, so that
// one whose time is over finds itself either in the queue or told. Where it sleeps, if it does.
std::atomic<uint32_t>* TurnQueue::give_or_free(std::atomic<uint64_t>& word, uint64_t mine) {
  Waiter* const next = longest_waiting();
  if (next == nullptr || Clock::now() < next->due) {
    word.store(mine & ~kTurnMask, std::memory_order_release);
    if (next == nullptr || next->is_seen_to()) return nullptr;
    next->tell(Outcome::kLook);
  } else {
    drop(*next);
    word.store(next->mine | next_waits(), std::memory_order_seq_cst);
    next->tell(Outcome::kMine);
  }
  return &next->outcome;
}

void TurnQueue::pass(std::atomic<uint64_t>& word, uint64_t mine) {
  std::unique_lock locked(lock_);
  std::atomic<uint32_t>* const sleeps_at = give_or_free(word, mine);
  locked.unlock();
  if (sleeps_at != nullptr) futex_wake(*sleeps_at, 1);
}

void TurnQueue::tell_all(Outcome what) {
  Waiter* const last = std::exchange(last_, nullptr);
  Waiter* next = last == nullptr ? nullptr : last->next;
  while (next != nullptr) {
    Waiter& each = *next;
    std::atomic<uint32_t>& outcome = each.outcome;
    next = &each == last ? nullptr : each.next;
    each.tell(what);
    futex_wake(outcome, 1);
  }
}

void TurnQueue::refuse(std::atomic<uint64_t>& word) {
  const std::scoped_lock locked(lock_);
  refuses_ = true;
  tell_all(Outcome::kEnds);
  word.fetch_and(~kAwaited, std::memory_order_relaxed);
}

void TurnQueue::open() {
  const std::scoped_lock locked(lock_);
  refuses_ = false;
}

void TurnQueue::end(std::atomic<uint64_t>& word) {
  const std::scoped_lock locked(lock_);
  word.store(0, std::memory_order_seq_cst);
  refuses_ = false;
  tell_all(Outcome::kGone);
}

void TurnQueue::forget() {
  lock_.forget();
  refuses_ = false;
  last_ = nullptr;
}

}  // namespace sk::api
