// The caller's own reason to end a wait for other threads of this process: a function that a thread
// which waits asks now and then.
#ifndef SK_LIB_BASE_INTERRUPTION_H_
#define SK_LIB_BASE_INTERRUPTION_H_

#include <cstdint>

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

}  // namespace sk

#endif  // SK_LIB_BASE_INTERRUPTION_H_
