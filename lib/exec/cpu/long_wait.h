// Tells of a wait that lasts: its time may be long, and without a word nobody knows for whom.
#ifndef SK_LIB_EXEC_CPU_LONG_WAIT_H_
#define SK_LIB_EXEC_CPU_LONG_WAIT_H_

#include <cstdint>

#include "lib/base/status.h"
#include "lib/exec/cpu/waiter.h"
#include "lib/exec/executor.h"

namespace sk::cpu {

class LongWait {
 public:
  explicit LongWait(const StillWaiting& told) : told_(told) {}

  // Between the slices of a wait. `sentence(waited_ns)` is asked where it is time to tell; no call
  // fails for it.
  template <typename Sentence>
  void look(const Sentence& sentence) {
    if (!told_.tell) return;
    const int64_t now = now_ns();
    if (began_ns_ == 0) began_ns_ = now, next_ns_ = now + told_.after_ns;
    if (now < next_ns_) return;
    next_ns_ = now + 6 * told_.after_ns;
    (void)caught([&]() -> Status {
      told_.tell(sentence(now - began_ns_));
      return {};
    });
  }
  // No peer is awaited at present.
  void renew() { began_ns_ = 0; }

 private:
  const StillWaiting& told_;
  int64_t began_ns_ = 0, next_ns_ = 0;
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_LONG_WAIT_H_
