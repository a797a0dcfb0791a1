// Says now and then that ranks are still waited for: their time may be long, and without a word
// nobody knows for whom.
#ifndef SK_TRANSPORT_BOOTSTRAP_WAIT_NOTICE_H_
#define SK_TRANSPORT_BOOTSTRAP_WAIT_NOTICE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "transport/bootstrap/kinds.h"

namespace sk {

class WaitNotice {
 public:
  WaitNotice(const BootstrapConfig& config, int64_t deadline_ns)
      : tell_(config.still_waiting),
        apart_ns_(6 * config.notice_after_ns),
        next_ns_(bootstrap_clock_ns() + config.notice_after_ns),
        deadline_ns_(deadline_ns) {}

  // `sentence` is asked where it is time to tell.
  template <typename Sentence>
  void look(const Sentence& sentence) {
    const int64_t now_ns = bootstrap_clock_ns();
    if (!tell_ || now_ns < next_ns_) return;
    next_ns_ = now_ns + apart_ns_;
    tell_(fmt::format("{}; it is waited for {} s more at most", std::string(sentence()),
                      std::max<int64_t>(deadline_ns_ - now_ns, 0) / 1'000'000'000));
  }

 private:
  const std::function<void(const std::string&)> tell_;
  const int64_t apart_ns_;
  int64_t next_ns_;
  const int64_t deadline_ns_;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_WAIT_NOTICE_H_
