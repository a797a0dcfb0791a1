// Turns at an object that one call at a time may have: who waits for another thread's call comes
// first in, first out.
#ifndef SK_LIB_API_TURNS_H_
#define SK_LIB_API_TURNS_H_

#include <atomic>
#include <cstdint>

namespace sk::api {

// How a call waits for its turn.
struct Turn {
  int64_t limit_ns = 0;  // 0: as long as calls on the object wait.
  // Called about every 50 ms, on the thread that waits; anything but 0 ends the wait.
  int32_t (*waiting)(void* user) = nullptr;
  void* user = nullptr;
};

// Whose turn it is, as one word: which object it is, and these bits.
inline constexpr uint64_t kUsed = 1;     // A call has it,
inline constexpr uint64_t kAwaited = 2;  // and others wait for it, in the queue;
inline constexpr uint64_t kEnding = 4;   // or whoever has it takes the object away.
inline constexpr uint64_t kTurnBits = 3;

// Those who wait for the turn of one word. Whoever finds the word free takes it, and whoever finds
// nobody waiting frees it, without looking here; while somebody waits the word is never free.
//
// Zero at first, and nothing of it is destroyed.
class TurnQueue {
 public:
  enum class Outcome : uint32_t {
    kNone,
    kMine,
    kGone,     // The object was taken away.
    kLate,     // The time is over.
    kStopped,  // As Turn::waiting said.
    kThrew,    // That threw an exception.
  };
  // `alive`: the word as it is when nobody has the turn. `limit_ns` is the turn's.
  Outcome wait(std::atomic<uint64_t>& word, uint64_t alive, int64_t limit_ns, const Turn& turn);

  // Gives the caller's turn to whoever has waited longest, or to nobody.
  void pass(std::atomic<uint64_t>& word, uint64_t alive);

  // The caller has the turn, and the object is no more: all who wait hear it.
  void end(std::atomic<uint64_t>& word);

  // In a forked child: whoever waited, or held the lock, is its parent's.
  void forget();

 private:
  struct Waiter;
  class Locked;

  void append(Waiter& waiter);
  Waiter* take_first();
  Outcome give_up(std::atomic<uint64_t>& word, Waiter& waiter, Outcome why);

  std::atomic<bool> lock_{false};  // Held for a few instructions.
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace sk::api

#endif  // SK_LIB_API_TURNS_H_
