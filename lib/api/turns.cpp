#include "lib/api/turns.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/base/futex.h"

namespace sk::api {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = TurnQueue::Outcome;

// Longer than most small calls, and about what it takes to sleep and be woken.
constexpr int64_t kSpinNs = 5'000;
// Whoever has waited so long is given the turn. Before, it is only told that there is one: a turn
// that is given lies idle until the thread that has it runs.
constexpr auto kPatience = std::chrono::microseconds(100);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// No static of a function's: a fork while another thread makes that would leave it half made.
bool has_several_cpus() {
  static constinit std::atomic<uint32_t> known{0};
  uint32_t cpus = known.load(std::memory_order_relaxed);
  if (cpus == 0) {
    cpus = std::max(1u, std::thread::hardware_concurrency());
    known.store(cpus, std::memory_order_relaxed);
  }
  return cpus > 1;
}

int64_t ns_until(Clock::time_point then) {
  return std::chrono::nanoseconds(then - Clock::now()).count();
}

Outcome ask(const Turn& turn) {
  if (turn.interruption.is_due()) return Outcome::kInterrupted;
  try {
    const bool stops = turn.waiting != nullptr && turn.waiting(turn.user) != 0;
    return stops ? Outcome::kStopped : Outcome::kNone;
  } catch (...) {
    return Outcome::kThrew;
  }
}

}  // namespace

// On the stack of the thread that waits. Once `outcome` is set nobody else uses it, but for waking
// whoever sleeps at its address, which does no harm to anybody.
struct TurnQueue::Waiter {
  uint64_t mine;
  Clock::time_point since = Clock::now();
  std::atomic<uint32_t> outcome{uint32_t(Outcome::kNone)};
  bool aside = false;
  Waiter* next = nullptr;

  Outcome told() const { return Outcome(outcome.load(std::memory_order_acquire)); }
};

void TurnQueue::append(Waiter& waiter) {
  (last_ == nullptr ? first_ : last_->next) = &waiter;
  last_ = &waiter;
}

void TurnQueue::drop(Waiter& waiter) {
  Waiter* before = nullptr;
  for (Waiter* each = first_; each != &waiter; each = each->next) before = each;
  (before == nullptr ? first_ : before->next) = waiter.next;
  if (last_ == &waiter) last_ = before;
}

TurnQueue::Waiter* TurnQueue::longest_waiting() const {
  Waiter* each = first_;
  while (each != nullptr && each->aside) each = each->next;
  return each;
}

bool TurnQueue::take_soon(std::atomic<uint64_t>& word, uint64_t mine) {
  if (!has_several_cpus()) return false;  // Whoever has it does not run meanwhile.
  const uint64_t alive = mine & ~kTurnMask;
  const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(kSpinNs);
  do {
    for (int i = 0; i < 16; ++i) {
      uint64_t is = word.load(std::memory_order_relaxed);
      if (is == alive && word.compare_exchange_strong(is, mine, std::memory_order_seq_cst))
        return true;
      if (is >> kTurnBits != alive >> kTurnBits || (is & kEnding) != 0) return false;
      pause();
    }
  } while (Clock::now() < until);
  return false;
}

// Takes the turn where nobody has it; else makes sure that whoever has it sees that it is awaited.
Outcome TurnQueue::take_or_await(std::atomic<uint64_t>& word, uint64_t mine) const {
  const uint64_t alive = mine & ~kTurnMask;
  uint64_t is = word.load(std::memory_order_relaxed);
  for (;;) {
    if (is >> kTurnBits != alive >> kTurnBits) return Outcome::kGone;
    if (refuses_) return Outcome::kEnds;
    if ((is & kAwaited) != 0) return Outcome::kNone;
    const bool free = is == alive;
    if (word.compare_exchange_weak(is, free ? mine : is | kAwaited, std::memory_order_seq_cst,
                                   std::memory_order_relaxed))
      return free ? Outcome::kMine : Outcome::kNone;
  }
}

// What the waiter was told, if it need not do anything for it. Where it was told to look, it does:
// until then nobody else of the queue would.
Outcome TurnQueue::heard(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Outcome told = waiter.told();
  if (told != Outcome::kLook) return told;
  waiter.outcome.store(uint32_t(Outcome::kNone), std::memory_order_relaxed);
  const Outcome outcome = take_or_await(word, waiter.mine);
  if (outcome == Outcome::kNone) return outcome;
  drop(waiter);
  if (outcome == Outcome::kMine && longest_waiting() != nullptr)
    word.fetch_or(kAwaited, std::memory_order_relaxed);
  return outcome;
}

Outcome TurnQueue::look_again(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Locked locked(lock_);
  return heard(word, waiter);
}

Outcome TurnQueue::enter(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Locked locked(lock_);
  const Outcome outcome = take_or_await(word, waiter.mine);
  if (outcome == Outcome::kNone) append(waiter);
  return outcome;
}

Outcome TurnQueue::step_aside(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Locked locked(lock_);
  if (const Outcome told = heard(word, waiter); told != Outcome::kNone) return told;
  waiter.aside = true;
  if (longest_waiting() == nullptr) word.fetch_and(~kAwaited, std::memory_order_relaxed);
  return Outcome::kNone;
}

Outcome TurnQueue::step_back(std::atomic<uint64_t>& word, Waiter& waiter) {
  const Locked locked(lock_);
  if (const Outcome told = waiter.told(); told != Outcome::kNone) return told;
  const Outcome outcome = take_or_await(word, waiter.mine);
  if (outcome == Outcome::kNone)
    waiter.aside = false;
  else
    drop(waiter);
  return outcome;
}

// Somebody may have passed the turn on meanwhile: then it is the caller's.
Outcome TurnQueue::give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why) {
  const Locked locked(lock_);
  if (const Outcome told = heard(word, waiter); told != Outcome::kNone) return told;
  drop(waiter);
  if (longest_waiting() == nullptr) word.fetch_and(~kAwaited, std::memory_order_relaxed);
  return why;
}

Outcome TurnQueue::wait(std::atomic<uint64_t>& word, uint64_t mine, int64_t limit_ns,
                        const Turn& turn) {
  const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(limit_ns);
  const bool asks = turn.waiting != nullptr || turn.interruption.function != nullptr;
  const auto between_asks = std::chrono::nanoseconds(Interruption::kAskNs);
  Waiter waiter{.mine = mine};
  Outcome outcome = enter(word, waiter);
  Clock::time_point look = Clock::now() + between_asks;
  while (outcome == Outcome::kNone) {
    const int64_t left = ns_until(until);
    if (left <= 0) return give_up(word, waiter, Outcome::kLate);
    const int64_t calm = asks ? std::min(left, ns_until(look)) : left;
    if (calm > 0) {
      futex_wait(waiter.outcome, uint32_t(Outcome::kNone), calm);
      outcome = waiter.told();
      if (outcome == Outcome::kLook) outcome = look_again(word, waiter);
      continue;
    }
    outcome = step_aside(word, waiter);
    if (outcome != Outcome::kNone) break;
    const Outcome answer = ask(turn);
    if (answer != Outcome::kNone) return give_up(word, waiter, answer);
    outcome = step_back(word, waiter);
    look = Clock::now() + between_asks;
  }
  return outcome;
}

// In the name of one that is told thereafter; the queue is locked.
void TurnQueue::give_to(Waiter& next, std::atomic<uint64_t>& word) {
  drop(next);
  const uint64_t awaited = longest_waiting() == nullptr ? 0 : kAwaited;
  word.store(next.mine | awaited, std::memory_order_seq_cst);
  next.outcome.store(uint32_t(Outcome::kMine), std::memory_order_release);
}

// Given in the waiter's name before it hears of it. It is told while the queue is locked, so that
// one whose time is over finds itself either in the queue or told.
void TurnQueue::pass(std::atomic<uint64_t>& word, uint64_t mine) {
  std::atomic<uint32_t>* sleeps_at = nullptr;
  {
    const Locked locked(lock_);
    Waiter* const next = longest_waiting();
    if (next == nullptr) return word.store(mine & ~kTurnMask, std::memory_order_release);
    if (Clock::now() - next->since < kPatience) {
      word.store(mine & ~kTurnMask, std::memory_order_release);
      if (next->told() == Outcome::kLook) return;  // Which it has not done yet.
      sleeps_at = &next->outcome;
      next->outcome.store(uint32_t(Outcome::kLook), std::memory_order_release);
    } else {
      give_to(*next, word);
      sleeps_at = &next->outcome;
    }
  }
  futex_wake(*sleeps_at, 1);
}

void TurnQueue::tell_all(Outcome what) {
  last_ = nullptr;
  while (first_ != nullptr) {
    std::atomic<uint32_t>& outcome = first_->outcome;
    first_ = first_->next;
    outcome.store(uint32_t(what), std::memory_order_release);
    futex_wake(outcome, 1);
  }
}

void TurnQueue::refuse(std::atomic<uint64_t>& word) {
  const Locked locked(lock_);
  refuses_ = true;
  tell_all(Outcome::kEnds);
  word.fetch_and(~kAwaited, std::memory_order_relaxed);
}

void TurnQueue::open() {
  const Locked locked(lock_);
  refuses_ = false;
}

void TurnQueue::end(std::atomic<uint64_t>& word) {
  const Locked locked(lock_);
  word.store(0, std::memory_order_seq_cst);
  refuses_ = false;
  tell_all(Outcome::kGone);
}

void TurnQueue::forget() {
  lock_.store(false);
  refuses_ = false;
  first_ = last_ = nullptr;
}

}  // namespace sk::api
