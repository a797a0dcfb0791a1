// Turns at an object that one call at a time may have: who waits for another thread's call comes in
// the order of coming, once it has waited for 0.1 ms; before, calls that find the object free come
// first.
#ifndef SK_LIB_API_TURNS_H_
#define SK_LIB_API_TURNS_H_

#include <atomic>
#include <climits>
#include <cstdint>
#include <mutex>

#include "lib/base/futex.h"
#include "lib/base/interruption.h"
#include "lib/base/short_lock.h"

namespace sk::api {

// How a call waits for its turn.
struct Turn {
  int64_t limit_ns = 0;  // 0: as long as calls on the object wait.
  // Called about every 50 ms, on the thread that waits; anything but 0 ends the wait.
  int32_t (*waiting)(void* user) = nullptr;
  void* user = nullptr;
  Interruption interruption{};  // The object's own, which is asked before that.
  bool ends = false;            // It is to take the object away: nobody else waits beside it.
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

// One who keeps an object from going has left.
inline void unpin(const std::atomic<uint64_t>& word, std::atomic<uint32_t>& pins) {
  // In one order with whoever ends it: either that finds no pin, or its end is seen here.
  const bool last = pins.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (last && (word.load(std::memory_order_seq_cst) & kEnding) != 0) futex_wake(pins, INT_MAX);
}

// Those who wait for the turn of one word. Whoever finds the word free takes it, and whoever finds
// nobody waiting (kAwaited) frees it, without looking here.
//
// A turn that is given to a thread that sleeps lies idle until that runs: as long as many small
// calls take. So it is given to the first of those who wait only once that has waited for a while,
// and not within that while of the last time. Before, the word is freed, and the first is woken to
// look whether it is still free. If it is not, it sleeps out its while, and is not woken meanwhile:
// then it sees to it that the turn is given to it.
//
// While anybody waits one of three holds of the first: the word has kAwaited, and so is taken; or
// it was told to look; or it will look by itself.
//
// While a waiter runs a function of its caller's it is passed over, and counts as nobody: that may
// last, and may itself wait for the same turn. It pins the object meanwhile.
//
// Zero at first, and nothing of it is destroyed.
class TurnQueue {
 public:
  enum class Outcome : uint32_t {
    kNone,
    kMine,
    kLook,         // Within the queue: the turn may be free.
    kGone,         // The object was taken away,
    kEnds,         // or somebody is about to.
    kLate,         // The time is over.
    kInterrupted,  // As Turn::interruption said.
    kStopped,      // As Turn::waiting said.
    kThrew,        // That threw an exception.
    kForked,       // This is a child that one of them forked.
  };
  // The object, as far as its turns need it: its word, and how many keep it from going.
  struct Of {
    std::atomic<uint64_t>& word;
    std::atomic<uint32_t>& pins;
  };

  // Waits as long as a small call may last, without a place in the queue; whether the turn is the
  // caller's. `mine`: the word then, while nobody waits.
  static bool take_soon(std::atomic<uint64_t>& word, uint64_t mine);
  // `limit_ns` is the turn's.
  Outcome wait(const Of& of, uint64_t mine, int64_t limit_ns, const Turn& turn);

  // Gives the caller's turn, which is not ending, to whoever has waited longest, if long enough, or
  // to nobody.
  void pass(std::atomic<uint64_t>& word, uint64_t mine);

  // Of a caller that has the turn and is to take the object away. Whoever waits, or is to wait, is
  // refused until open() or end().
  void refuse(std::atomic<uint64_t>& word);
  void open();
  // The object is no more.
  void end(std::atomic<uint64_t>& word);

  // Whether the object of `mine` is alive, and is while `read` looks at it.
  template <typename Read>
  bool read_alive(const std::atomic<uint64_t>& word, uint64_t mine, const Read& read) {
    const std::scoped_lock locked(lock_);
    if (word.load(std::memory_order_acquire) >> kTurnBits != mine >> kTurnBits) return false;
    read();
    return true;
  }

  // In a forked child: whoever waited, or held the lock, is its parent's.
  void forget();

 private:
  struct Waiter;

  // With the queue locked.
  void append(Waiter& waiter);
  void drop(Waiter& waiter);
  Waiter* longest_waiting() const;  // Of those that are not aside.
  Outcome take(std::atomic<uint64_t>& word, const Waiter& waiter) const;
  Outcome take_queued(std::atomic<uint64_t>& word, Waiter& waiter);
  uint64_t next_waits() const;
  void attend(std::atomic<uint64_t>& word);
  std::atomic<uint32_t>* give_or_free(std::atomic<uint64_t>& word, uint64_t mine);
  void tell_all(Outcome what);

  // What the waiter is told; kNone while there is nothing.
  Outcome enter(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome look_once(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome look(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome rest(std::atomic<uint64_t>& word, Waiter& waiter, int64_t ns);
  Outcome ask_aside(const Of& of, Waiter& waiter, const Turn& turn);
  Outcome step_aside(const Of& of, Waiter& waiter);
  Outcome step_back(std::atomic<uint64_t>& word, Waiter& waiter);
  Outcome give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why);

  Waiter* last_ = nullptr;  // Whose next is the first: the object has few bytes.
  ShortLock lock_;
  bool refuses_ = false;
};

}  // namespace sk::api

#endif  // SK_LIB_API_TURNS_H_
