// Waiting for what other threads or processes do, where spinning would take their cores from them.
#ifndef SK_TESTS_SUPPORT_UNTIL_H_
#define SK_TESTS_SUPPORT_UNTIL_H_

#include <chrono>
#include <thread>

namespace sk::testing_support {

// Whether `condition` has come true within five minutes; looks about every millisecond.
template <class Condition>
[[nodiscard]] bool until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_UNTIL_H_
