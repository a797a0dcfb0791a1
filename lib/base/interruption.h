// The caller's own reason to end a wait for other threads of this process: a function that a thread
// which waits asks now and then.
#ifndef SK_LIB_BASE_INTERRUPTION_H_
#define SK_LIB_BASE_INTERRUPTION_H_

#include <cstdint>
#include <mutex>

namespace sk {

struct Interruption {
  static constexpr int64_t kAskNs = 50'000'000;  // Short enough for Ctrl-C to feel immediate.

  int32_t (*function)(void* user) = nullptr;
  void* user = nullptr;

  // What it throws is an answer, too: nothing may leave through the C ABI.
  bool is_due() const noexcept {
    if (function == nullptr) return false;
    try {
      return function(user) != 0;
    } catch (...) {
      return true;
    }
  }
};

// One that any thread may set and read: function and user are always of one set(), and whoever
// waits from then on asks that.
class SharedInterruption {
 public:
  void set(const Interruption& interruption) {
    const std::scoped_lock locked(mutex_);
    interruption_ = interruption;
  }
  Interruption get() const {
    const std::scoped_lock locked(mutex_);
    return interruption_;
  }

 private:
  mutable std::mutex mutex_;  // Held for two loads or stores.
  Interruption interruption_;
};

}  // namespace sk

#endif  // SK_LIB_BASE_INTERRUPTION_H_
