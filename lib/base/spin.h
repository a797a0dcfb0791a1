// Looking again and again at what another thread is about to write.
#ifndef SK_LIB_BASE_SPIN_H_
#define SK_LIB_BASE_SPIN_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace sk {

// Between two looks: the core's other thread, and the memory's bus, have it easier.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Where there is one, whoever is looked for does not run meanwhile. No static of the function's: a
// fork while another thread makes that would leave it half made.
inline bool has_several_cpus() {
  static constinit std::atomic<uint32_t> known{0};
  uint32_t cpus = known.load(std::memory_order_relaxed);
  if (cpus == 0) {
    cpus = std::thread::hardware_concurrency();
    if (cpus == 0) cpus = 1;
    known.store(cpus, std::memory_order_relaxed);
  }
  return cpus > 1;
}

}  // namespace sk

#endif  // SK_LIB_BASE_SPIN_H_
