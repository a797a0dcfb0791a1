// A lock of four bytes that is held for a few instructions.
#ifndef SK_LIB_BASE_SHORT_LOCK_H_
#define SK_LIB_BASE_SHORT_LOCK_H_

#include <atomic>
#include <cstdint>

#include "lib/base/futex.h"
#include "lib/base/spin.h"

namespace sk {

// Zero at first, and nothing of it is destroyed. Whoever finds it taken for longer than a moment
// sleeps: whoever has it may have lost its core, to this very thread where that has the higher
// priority, and would never come to give it back to one that only looks or yields.
class ShortLock {
 public:
  void lock() {
    uint32_t is = kFree;
    if (!state_.compare_exchange_strong(is, kTaken, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      futex_wake(state_, 1);
  }
  // In a forked child: whoever had it is its parent's.
  void forget() { state_.store(kFree); }

 private:
  enum : uint32_t {
    kFree,
    kTaken,
    kAwaited,  // Taken, and perhaps slept for.
  };
  static constexpr int kLooks = 64;
  static constexpr int64_t kSleepNs = 100'000'000;  // A wake that got lost costs no more.

  [[gnu::noinline]] void lock_slowly() {
    for (int i = 0; i < kLooks && has_several_cpus(); ++i) {
      relax();
      uint32_t is = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_strong(is, kTaken, std::memory_order_acquire))
        return;
    }
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
      futex_wait(state_, kAwaited, kSleepNs);
  }

  std::atomic<uint32_t> state_{kFree};
};

}  // namespace sk

#endif  // SK_LIB_BASE_SHORT_LOCK_H_
