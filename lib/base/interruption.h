// The caller's own reason to end a wait for other threads of this process: a function that a thread
// which waits asks now and then.
#ifndef SK_LIB_BASE_INTERRUPTION_H_
#define SK_LIB_BASE_INTERRUPTION_H_

#include <cstdint>
#include <mutex>
#include <utility>

#include "lib/base/inside_callback.h"

namespace sk {

struct Interruption {
  static constexpr int64_t kAskNs = 50'000'000;  // Short enough for Ctrl-C to feel immediate.

  int32_t (*function)(void* user) = nullptr;
  void* user = nullptr;

  // What it throws is an answer, too: nothing may leave through the C ABI. Inside of one, this
  // thread's waits ask nobody: else the function would be asked by its own calls, ever deeper.
  bool is_due() const noexcept {
    if (function == nullptr || asks_) return false;
    const Asking asking;
    const InsideCallback inside("the function of sk_context_set_interrupted()");
    try {
      return function(user) != 0;
    } catch (...) {
      return true;
    }
  }

 private:
  struct Asking {
    Asking() { asks_ = true; }
    ~Asking() { asks_ = false; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
  };
  static inline constinit thread_local bool asks_ = false;
};

// One that any thread may set or use. It is not set while anybody uses it: whoever is told that it
// is set knows that nobody asks the one of before, or will.
class SharedInterruption {
 public:
  class Use {
   public:
    Use() = default;  // Of none.
    Use(Use&& other) noexcept : of_(std::exchange(other.of_, nullptr)), is_(other.is_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (of_ == nullptr) return;
      const std::scoped_lock locked(of_->mutex_);
      --of_->uses_;
    }
    const Interruption& get() const { return is_; }

   private:
    friend class SharedInterruption;
    explicit Use(const SharedInterruption* of) : of_(of), is_(of->is_) {}  // Locked.

    const SharedInterruption* of_ = nullptr;
    Interruption is_;
  };

  Use use() const {
    const std::scoped_lock locked(mutex_);
    ++uses_;
    return Use(this);
  }
  // False, and nothing has changed, while it is in use.
  [[nodiscard]] bool set(const Interruption& interruption) {
    const std::scoped_lock locked(mutex_);
    if (uses_ != 0) return false;
    is_ = interruption;
    return true;
  }

 private:
  mutable std::mutex mutex_;  // Held for a few instructions.
  mutable int uses_ = 0;
  Interruption is_;
};

}  // namespace sk

#endif  // SK_LIB_BASE_INTERRUPTION_H_
