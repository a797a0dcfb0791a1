#include "lib/exec/cpu/tile/hand_over.h"

#include <algorithm>

#include "lib/exec/cpu/tile/copy.h"

namespace sk::cpu {
namespace {

// Below, a line or two of waiting costs less than the detour through memory.
constexpr size_t kChooseMin = 4 << 10;
// So much tells near from far; the rest of a long copy profits from it at once.
constexpr size_t kProbeBytes = 8 << 10;

}  // namespace

void copy_handed_over(void* dst, const void* src, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kChooseMin) {
    static HandOverChoice choice;
    const HandOverChoice::Way way = choice.next();
    size_t done = 0;
    bool past_caches = way == HandOverChoice::Way::kPastCaches;
    if (way == HandOverChoice::Way::kMeasured) {
      done = std::min(bytes, kProbeBytes);
      const uint64_t start = __builtin_ia32_rdtsc();
      copy(&dst, 1, src, done, StoreHint::kNormal);
      __builtin_ia32_mfence();  // Stores wait for their lines in a buffer of 64 and more.
      const uint64_t ticks = __builtin_ia32_rdtsc() - start;
      choice.learn(ticks, done / 64);
      past_caches = ticks >= HandOverChoice::kSlowTicksPerLine * (done / 64);
    }
    void* rest = static_cast<char*>(dst) + done;
    return copy(&rest, 1, static_cast<const char*>(src) + done, bytes - done,
                past_caches ? StoreHint::kNonTemporal : StoreHint::kNormal);
  }
#endif
  copy(&dst, 1, src, bytes, StoreHint::kNormal);
}

}  // namespace sk::cpu
