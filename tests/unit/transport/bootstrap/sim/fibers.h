// Processes of a simulation: fibers of one thread that take turns, and a clock that goes on only
// when all of them wait.
//
// A fiber that is killed ends by an exception at its next wait, so what is on its stack is freed;
// until then it gets nothing done.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_FIBERS_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_FIBERS_H_

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

namespace sk::sim {

// Unwinds the stack of a fiber whose process has died.
struct Killed : std::exception {};

// Of the fibers' stacks: mapped once, used again by all simulations of the thread.
class Stacks {
 public:
  static Stacks& get();
  std::byte* take();
  void give(std::byte* stack) { free_.push_back(stack); }
  static constexpr size_t kBytes = 256 << 10;

 private:
  std::vector<std::byte*> free_;
};

class Fibers {
 public:
  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // The one whose fiber runs now; null outside of fibers.
  static Fibers* running();

  int64_t now_ns() const { return now_ns_; }
  // `what` happens at `when_ns`, outside of fibers. Of equal times the first that was asked for.
  void at(int64_t when_ns, std::function<void()> what);
  // Its number; it begins at `when_ns`.
  size_t spawn(int64_t when_ns, std::function<void()> body);
  // Until nothing is left to happen, the clock has passed `limit_ns`, or so much has happened that
  // somebody must be spinning.
  void run(int64_t limit_ns);

  size_t count() const { return all_.size(); }
  bool ended(size_t fiber) const { return all_[fiber]->state == State::kEnded; }
  bool killed(size_t fiber) const { return all_[fiber]->killed; }
  // Ends it at its next wait, or before it began.
  void kill(size_t fiber);
  // It may have what it waits for.
  void wake(size_t fiber);
  // Whatever wakes it, it goes on at `until_ns` at the earliest: a process that was stopped.
  void stop_until(size_t fiber, int64_t until_ns) { all_[fiber]->stopped_until_ns = until_ns; }
  uint64_t happened() const { return happened_; }

  // Of the fiber that runs.
  size_t self() const { return running_fiber_; }
  // Until wake(), at most until `until_ns`. Throws Killed.
  void wait(int64_t until_ns);
  void pause(int64_t ns);
  // wait() in a destructor: who is killed goes on.
  void wait_or_die_later(int64_t until_ns);

  static constexpr uint64_t kHappensMost = 4'000'000;

 private:
  enum class State { kNotBegun, kRuns, kWaits, kEnded };
  struct Fiber {
    ucontext_t context = {};
    std::byte* stack = nullptr;
    std::function<void()> body;
    State state = State::kNotBegun;
    bool killed = false;
    uint64_t waits = 0;  // Counts its waits: a timer of an earlier one wakes nobody.
    int64_t stopped_until_ns = 0;
    void* fake_stack = nullptr;  // AddressSanitizer's.
  };
  struct Event {
    int64_t when_ns;
    uint64_t order;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return when_ns != other.when_ns ? when_ns > other.when_ns : order > other.order;
    }
  };

  static void begin();
  void go_on(size_t fiber, uint64_t wait);
  void enter(size_t fiber);
  void leave(bool for_good);

  std::vector<std::unique_ptr<Fiber>> all_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t orders_ = 0, happened_ = 0;
  int64_t now_ns_ = 1'000'000'000;
  size_t running_fiber_ = SIZE_MAX;
  ucontext_t outside_ = {};
  void* outside_fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
};

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_FIBERS_H_
