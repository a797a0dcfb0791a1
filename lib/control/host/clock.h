// The monotonic clock for the programs that drive the core classes (the cores never read it).
#ifndef SK_LIB_CONTROL_HOST_CLOCK_H_
#define SK_LIB_CONTROL_HOST_CLOCK_H_

#include <cstdint>
#include <ctime>

namespace sk::control {

inline int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CLOCK_H_
