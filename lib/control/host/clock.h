// Clocks for the programs that drive the core classes (the cores never read one).
#ifndef SK_LIB_CONTROL_HOST_CLOCK_H_
#define SK_LIB_CONTROL_HOST_CLOCK_H_

#include <pthread.h>
#include <sys/resource.h>

#include <cstdint>
#include <ctime>

namespace sk::control {

inline int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Processor time of this process's threads and of children that it has waited for.
inline int64_t process_cpu_ns() {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  const int64_t seconds = own.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec;
  const int64_t micros = children.ru_utime.tv_usec + children.ru_stime.tv_usec;
  return seconds * 1'000'000'000 + micros * 1'000 + own.tv_nsec;
}

// Processor time of one thread of this process.
inline int64_t thread_cpu_ns(pthread_t thread) {
  clockid_t clock{};
  timespec used{};
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return used.tv_sec * 1'000'000'000 + used.tv_nsec;
}

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CLOCK_H_
