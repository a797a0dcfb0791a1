// Turns at an object that one call at a time may have: who waits for another thread's call comes in
// about the order of coming, and nobody who has waited 0.1 ms is overtaken by more than those who
// come before whoever has the turn ends.
#ifndef SK_LIB_API_TURNS_H_
#define SK_LIB_API_TURNS_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "lib/base/interruption.h"

namespace sk::api {

// How a call waits for its turn.
struct Turn {
  int64_t limit_ns = 0;  // 0: as long as calls on the object wait.
  // Called about every 50 ms, on the thread that waits; anything but 0 ends the wait.
  int32_t (*waiting)(void* user) = nullptr;
  void* user = nullptr;
  Interruption interruption{};  // The object's own, which is asked before that.
};

// Whose turn it is, as one word: which object it is, in the bits above kTurnBits, and below
//   who has it, as the claim of that call; 0: nobody,
//   kAwaited: others wait for it, in the queue,
//   kEnding: whoever has it takes the object away.
inline constexpr uint64_t kAwaited = 1;
inline constexpr uint64_t kEnding = 2;
inline constexpr uint64_t kClaimShift = 2;
inline constexpr uint64_t kTurnBits = 20;
inline constexpr uint64_t kTurnMask = (uint64_t{1} << kTurnBits) - 1;
inline constexpr uint64_t kClaimMask = kTurnMask & ~(kAwaited | kEnding);

// Those who wait for the turn of one word. Whoever finds the word free takes it, and whoever finds
// nobody waiting (kAwaited) frees it, without looking here. Else the first of those who wait is
// given the turn, if it has waited long; before, the word is freed, too, and the first is told to
// look. So kAwaited is set only while somebody has the turn, and while anybody waits either it is
// set or the first was told to look, and on finding the turn taken sets it.
//
// While a waiter runs a function of its caller's it is passed over, and counts as nobody: that may
// last, and may itself wait for the same turn.
//
// Zero at first, and nothing of it is destroyed.
class TurnQueue {
 public:
  enum class Outcome : uint32_t {
    kNone,
    kMine,
    kLook,         // Within the queue: the turn may be free.
    kGone,         // The object was taken away,
    kEnds,         // or whoever has the turn is about to.
    kLate,         // The time is over.
    kInterrupted,  // As Turn::interruption said.
    kStopped,      // As Turn::waiting said.
    kThrew,        // That threw an exception.
  };
  // Waits as long as a small call may last, without a place in the queue; whether the turn is the
  // caller's, as wait() has it.
  static bool take_soon(std::atomic<uint64_t>& word, uint64_t mine);

  // `mine`: the word when the turn is the caller's and nobody waits. `limit_ns` is the turn's.
  Outcome wait(std::atomic<uint64_t>& word, uint64_t mine, int64_t limit_ns, const Turn& turn);

  // Gives the caller's turn, which is not ending, to whoever has waited longest, if long, or to
  // nobody.
  void pass(std::atomic<uint64_t>& word, uint64_t mine);

  // Of a caller that has the turn and has set kEnding. Whoever waits, or is to wait, is refused
  // until open() or end().
  void refuse(std::atomic<uint64_t>& word);
  void open();
  // The object is no more, and all who wait hear it.
  void end(std::atomic<uint64_t>& word);

  // Whether the object of `mine` is alive, and is while `read` looks at it.
  template <typename Read>
  bool read_alive(const std::atomic<uint64_t>& word, uint64_t mine, const Read& read) {
    const Locked locked(lock_);
    if (word.load(std::memory_order_acquire) >> kTurnBits != mine >> kTurnBits) return false;
    read();
    return true;
  }

  // In a forked child: whoever waited, or held the lock, is its parent's.
  void forget();

 private:
  struct Waiter;
  class Locked {
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

  // With the queue locked.
  void append(Waiter& waiter);
  void drop(Waiter& waiter);
  Waiter* longest_waiting() const;  // Of those that are not aside.
  Outcome take_or_await(std::atomic<uint64_t>& word, uint64_t mine) const;
  void tell_all(Outcome what);
  void give_to(Waiter& next, std::atomic<uint64_t>& word);
  Outcome heard(std::atomic<uint64_t>& word, Waiter& waiter);

  // What the waiter is told; kNone while there is nothing.
  Outcome enter(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome look_again(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome step_aside(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome step_back(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why);

  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  std::atomic<bool> lock_{false};  // Held for a few instructions.
  bool refuses_ = false;
};

}  // namespace sk::api

#endif  // SK_LIB_API_TURNS_H_
