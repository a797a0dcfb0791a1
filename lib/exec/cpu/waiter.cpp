#include "lib/exec/cpu/waiter.h"

#include <sched.h>
#include <time.h>

namespace sk::cpu {
namespace {

constexpr int64_t kYieldNs = 100'000;      // Yields before it sleeps.
constexpr int64_t kFirstCheckNs = 50'000;  // Looks after the peers from here on,
constexpr int64_t kCheckNs = 5'000'000;    // so often.
// A slice that lasted so much longer did so because this process was stopped, or its machine. Its
// peers may have been as well, and come now.
constexpr int64_t kStoodStillNs = 1'000'000'000;

}  // namespace

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void nap() {
  const timespec time = {0, 50'000};
  nanosleep(&time, nullptr);
}

void Allowance::spend(int64_t began_ns) {
  const int64_t now = now_ns();
  const int64_t beyond = now - began_ns - slice();
  const int64_t still = beyond > kStoodStillNs ? beyond : 0;
  left_ns_ -= now - (counted_ns_ == 0 ? began_ns : counted_ns_) - still;
  counted_ns_ = now;
}

Status Waiter::step(Patience& patience) {
  if (endpoint_.header().abort_word.load(std::memory_order_acquire) != 0) {
    return endpoint_.abort_status();
  }
  if (endpoint_.driven()) endpoint_.progress();
  sched_yield();
  if (++patience.yields % 8 != 1 && !patience.asleep) return {};  // The clock only now and then.
  const int64_t now = now_ns();
  if (patience.start_ns == 0) patience.start_ns = patience.checked_ns = now;
  const int64_t waited = now - patience.start_ns;
  if (waited > patience.timeout_ns) {
    began_ns_ = patience.start_ns;
    return Status(SK_ERR_TIMEOUT, "");
  }
  if (!drives_) {
    if (waited > kYieldNs) nap();
    return {};
  }
  if (waited > kFirstCheckNs &&
      now - patience.checked_ns > (patience.asleep ? kCheckNs : kYieldNs)) {
    patience.checked_ns = now;
    SK_RETURN_IF_ERROR(endpoint_.check());
  }
  patience.asleep = waited > kYieldNs;
  return {};
}

}  // namespace sk::cpu
