// Copies of bytes that another core reads next, into lines that it has read before.
//
// Where the two cores share a cache, ordinary stores are best. Where they do not, each such store
// waits until the reader's copy of its line is gone, one line after the other, and stores past the
// caches are several times faster (Zen 4, 16 KB both ways: 0.8 against 2.3 us near, 8.2 against
// 2.0 us far). Virtual machines move between the two while they run, so the copy itself finds out.
#ifndef SK_LIB_EXEC_CPU_TILE_HAND_OVER_H_
#define SK_LIB_EXEC_CPU_TILE_HAND_OVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/store_hint.h"

namespace sk::cpu {

// Decides from the time that ordinary stores took. Several threads may use one: what they lose of
// each other's news costs a copy or two.
class HandOverChoice {
 public:
  // Ticks of the time stamp counter, which runs at 2 to 4 GHz: near 5 to 20 a line, far 60 to 120.
  static constexpr uint64_t kSlowTicksPerLine = 40;
  static constexpr uint32_t kSlowInARow = 2;    // One slow copy may be a page fault.
  static constexpr uint32_t kMeasureEvery = 8;  // Waiting for the stores costs some 20 ns.
  static constexpr uint32_t kPastCaches = 256;  // Copies until ordinary stores are tried again.

  enum class Way : uint8_t { kOrdinary, kMeasured, kPastCaches };

  Way next() {
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn - 1, std::memory_order_relaxed);
    if (turn > kMeasureEvery) return Way::kPastCaches;
    if (turn != 1) return Way::kOrdinary;
    turn_.store(kMeasureEvery, std::memory_order_relaxed);
    return Way::kMeasured;
  }
  // `lines` were stored ordinarily in `ticks`.
  void learn(uint64_t ticks, uint64_t lines) {
    const bool slow = ticks >= kSlowTicksPerLine * lines;
    const uint32_t in_a_row = slow ? slow_.load(std::memory_order_relaxed) + 1 : 0;
    slow_.store(in_a_row, std::memory_order_relaxed);
    if (slow) turn_.store(in_a_row >= kSlowInARow ? kPastCaches : 1, std::memory_order_relaxed);
  }

 private:
  // Counts down: past the caches while above kMeasureEvery, then ordinary, measured at 1.
  std::atomic<uint32_t> turn_{1};
  std::atomic<uint32_t> slow_{0};  // Measured copies in a row that were slow.
};

// dst[0, bytes) = src[0, bytes), apart or the same.
void copy_handed_over(void* dst, const void* src, size_t bytes);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_HAND_OVER_H_
