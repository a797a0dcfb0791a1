// Waits of this process's threads that end after a time: std::atomic's have no bound.
#ifndef SK_LIB_BASE_FUTEX_H_
#define SK_LIB_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace sk {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Returns when the word is not `expected`, when it is woken, after the time, or for no reason.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout = {.tv_sec = timeout_ns / 1'000'000'000,
                            .tv_nsec = timeout_ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace sk

#endif  // SK_LIB_BASE_FUTEX_H_
