// How a CPU worker waits: spin, then yield, then sleep; bounded, and watching the abort word.
//
// A hand-off between two running ranks takes a few hundred ns, so waits spin first. Where ranks
// share cores the peer may need this very core: spinning is short there, and the worker yields.
// After about 100 us the rank's one driving thread sleeps on its doorbell, which posters ring, and
// others nap.
#ifndef SK_LIB_EXEC_CPU_WAITER_H_
#define SK_LIB_EXEC_CPU_WAITER_H_

#include <algorithm>
#include <cstdint>

#include "lib/base/spin.h"
#include "lib/base/status.h"
#include "transport/session.h"

namespace sk::cpu {

inline void pause() { relax(); }

int64_t now_ns();  // CLOCK_MONOTONIC.
void nap();        // 50 us.

// A wait's own time ran out; a peer's ending has a sentence.
inline bool ran_out(const Status& status) {
  return status.code() == SK_ERR_TIMEOUT && status.message().empty();
}

// After something that the thread which drives the endpoint may wait for, by another thread of its
// rank. A wake that is lost costs what it costs posters: at most kSleepNsMax.
inline void wake_driver(Endpoint& endpoint) {
  if (endpoint.header().sleeping.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    endpoint.ring(endpoint.rank());
}

// How long a peer may be waited for, by the clock. It is waited for in slices, between which this
// rank looks whether the peer will ever come, and tells others that it waits: so often that this
// has happened before the time is over, however short that is.
class Allowance {
 public:
  Allowance(int64_t timeout_ns, int64_t slice_ns_max)
      : timeout_ns_(timeout_ns), slice_ns_max_(slice_ns_max), left_ns_(timeout_ns) {}

  int64_t slice() const {
    return std::max(std::min({left_ns_, timeout_ns_ / 4, slice_ns_max_}), kSliceNsMin);
  }
  // A slice that began then is over.
  void spend(int64_t began_ns);
  bool spent() const { return left_ns_ <= 0; }
  bool is_long() const { return left_ns_ <= timeout_ns_ - long_ns(timeout_ns_); }
  // Of a wait that may last so long, what others are told of: they have heard of it when their own
  // time is over.
  static int64_t long_ns(int64_t timeout_ns) {
    return std::min(timeout_ns / 4, int64_t{1'000'000'000});
  }
  // No peer is awaited at present.
  void renew() { left_ns_ = timeout_ns_, counted_ns_ = 0; }

 private:
  static constexpr int64_t kSliceNsMin = 100'000;

  int64_t timeout_ns_, slice_ns_max_, left_ns_;
  int64_t counted_ns_ = 0;  // Up to then the clock has been counted; 0: the next slice begins.
};

class Waiter {
 public:
  // `spins`: how often to look before yielding. `drives`: this thread is the endpoint's one user:
  // it looks after peers and sleeps on the doorbell; others only yield and watch the abort word.
  Waiter(Endpoint& endpoint, uint32_t spins, bool drives)
      : endpoint_(endpoint), spins_(spins), drives_(drives) {}
  bool drives() const { return drives_; }
  // Of a wait that ran out.
  int64_t began_ns() const { return began_ns_; }

  // Returns once ready() is true, or says why it never will be. Having said so once it is not asked
  // again: to ask may be to do, as with a put that had found no room.
  template <typename Ready>
  Status wait(const Ready& ready, int64_t timeout_ns) {
    const bool driven = endpoint_.driven();
    // A look of a driven endpoint is a system call, of some hundred ns.
    const uint32_t spins = driven ? spins_ / 16 : spins_;
    for (uint32_t i = 0; i < spins; ++i) {
      if (ready()) [[likely]]
        return {};
      if (driven) [[unlikely]]
        endpoint_.progress();
      pause();
    }
    Patience patience(timeout_ns);
    bool is_ready = ready();
    while (!is_ready) {
      SK_RETURN_IF_ERROR(step(patience));
      if (patience.asleep) {
        // The flag goes up before the last look, so that a post between look and sleep rings.
        RankHeader& header = endpoint_.header();
        const uint32_t seen = header.doorbell.load(std::memory_order_acquire);
        header.sleeping.fetch_add(1, std::memory_order_seq_cst);
        is_ready = ready();
        if (!is_ready) endpoint_.sleep(seen, kSleepNs);
        header.sleeping.fetch_sub(1, std::memory_order_relaxed);
      }
      is_ready = is_ready || ready();
    }
    return {};
  }

 private:
  // A poster that misses the sleeping flag costs at most this.
  static constexpr int64_t kSleepNs = 1'000'000;

  struct Patience {
    explicit Patience(int64_t timeout) : timeout_ns(timeout) {}
    int64_t timeout_ns;
    int64_t start_ns = 0, checked_ns = 0;
    uint32_t yields = 0;
    bool asleep = false;
  };

  // One turn of the slow path: yields, looks at the clock, the abort word, and the peers.
  Status step(Patience& patience);

  Endpoint& endpoint_;
  uint32_t spins_;
  bool drives_;
  int64_t began_ns_ = 0;
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_WAITER_H_
