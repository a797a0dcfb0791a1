// The threads of one rank that run tiles beside its caller's.
#ifndef SK_LIB_EXEC_CPU_WORKERS_H_
#define SK_LIB_EXEC_CPU_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "lib/base/status.h"

namespace sk::cpu {

// `count` workers, of which the caller of run() is number 0. Threads are started when a run first
// needs them, and sleep between runs; those that a run does not need sleep on.
class Workers {
 public:
  // `ended(object)`: called by the last thread that comes to its end in a run, once finished() says
  // so: who waits for that may be asleep. It touches nothing that goes with the run.
  using Ended = void (*)(void* object);
  explicit Workers(uint32_t count, Ended ended = nullptr, void* ended_object = nullptr)
      : count_(count), ended_(ended), ended_object_(ended_object) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const { return count_; }

  // Before run(): so many workers exist; so many but number 0 have called `reserve`, which makes
  // sure of something that is the thread's own.
  Status start(uint32_t active);
  Status reserve(Status (*reserve)(), uint32_t active);

  // Starts body(object, 1..active-1) on the threads and runs body(object, 0) here; returns when the
  // latter does. The caller waits for finished() itself, as it alone may look after the peers
  // meanwhile. Bodies let no exception out: on a thread it would end the process.
  using Body = void (*)(void* object, uint32_t worker) noexcept;
  void run(uint32_t active, Body body, void* object);
  bool finished() const { return running_.load(std::memory_order_acquire) == 0; }

  // In a forked child, which has none of the threads: nobody is inside a run.
  void forget() { running_.store(0, std::memory_order_relaxed); }

  // How often the thread of `worker`, which is not 0, has been woken.
  uint32_t rounds(uint32_t worker) const {
    return threads_[worker - 1].bell.load(std::memory_order_relaxed);
  }

 private:
  // On a line of its own: ringing for one takes no line from another.
  struct alignas(64) Thread {
    std::atomic<uint32_t> bell{0};  // Grows by one for each of its rounds; it sleeps on it.
    std::thread thread{};
  };
  void loop(Thread& thread, uint32_t worker);

  uint32_t count_;
  Ended ended_;
  void* ended_object_;
  std::deque<Thread> threads_;  // Of number 1 on; they stay where they are.
  Body body_ = nullptr;
  void* object_ = nullptr;
  struct Reserved {
    Status (*reserve)();
    uint32_t workers;  // So many have it.
  };
  std::vector<Reserved> reserved_;
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_WORKERS_H_
