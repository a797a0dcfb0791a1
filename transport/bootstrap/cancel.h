// Ends a creation before its time: a peer has died, the caller was interrupted, a newer one is due.
//
// Every wait of bootstrap and connection watches it, so the ranks and the port of a creation that
// nobody wants any more are free for the next one at once, not when its timeout has run out.
#ifndef SK_TRANSPORT_BOOTSTRAP_CANCEL_H_
#define SK_TRANSPORT_BOOTSTRAP_CANCEL_H_

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/status.h"

namespace sk {

class Cancel {
 public:
  // `fd`: the caller's, which says by being readable that the creation is to end; -1: none.
  static Result<std::shared_ptr<Cancel>> make(int fd);
  // That of creations which nobody can end.
  static const Cancel& never();
  ~Cancel();
  Cancel(const Cancel&) = delete;
  Cancel& operator=(const Cancel&) = delete;

  // Every wait ends with `why`; the first counts. Any thread.
  void request(const Status& why);
  // OK until the end is asked for.
  Status status() const;

  // poll(2) on `entries`, at most `wait_ns`: how many are ready, or status(). A signal ends it with
  // none.
  Result<int> poll(std::vector<pollfd>& entries, int64_t wait_ns) const;

  // Waits for `ready`, at most until `deadline` or until the end is asked for: what ready() says.
  template <typename Ready>
  bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  std::chrono::steady_clock::time_point deadline, const Ready& ready) const {
    while (!ready()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline || !status().ok()) return false;
      changed.wait_until(lock, std::min(deadline, now + kLook));
    }
    return true;
  }

 private:
  Cancel(int event, int fd) : event_(event), fd_(fd) {}

  static constexpr std::chrono::milliseconds kLook{20};

  const int event_;  // Readable once request() was called; -1: it never is.
  const int fd_;     // The caller's.
  mutable std::mutex mutex_;
  Status why_;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_CANCEL_H_
