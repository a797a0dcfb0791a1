#include "lib/exec/cpu/workers.h"

#include "lib/exec/cpu/waiter.h"

namespace sk::cpu {
namespace {

constexpr int kSpins = 2000;  // Runs come in quick succession: look a few us before sleeping.

}  // namespace

Workers::~Workers() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(uint32_t active, Body body, void* object) {
  while (threads_.size() + 1 < active) {
    const uint32_t worker = uint32_t(threads_.size()) + 1;
    threads_.emplace_back([this, worker] { loop(worker); });
  }
  body_ = body;
  object_ = object;
  active_ = active;
  running_.store(uint32_t(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  body(object, 0);
}

void Workers::loop(uint32_t worker) {
  uint32_t seen = 0;
  for (;;) {
    for (int i = 0; i < kSpins && round_.load(std::memory_order_acquire) == seen; ++i) pause();
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (worker < active_) body_(object_, worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace sk::cpu
