// One link that two threads of a rank read: the main thread while it waits for a request, the I/O
// thread while it does not. Nobody hands over: what comes wakes the one thread that takes it.
//
// The kernel chooses. Both watch the link by an epoll of their own, the main thread's first and
// both EPOLLEXCLUSIVE: what arrives ends the wait of the main thread where it waits, and otherwise
// that of the I/O thread. Either may be woken in vain, so both read without waiting.
#ifndef SK_LIB_CONTROL_HOST_SHARED_WATCH_H_
#define SK_LIB_CONTROL_HOST_SHARED_WATCH_H_

#include <cstdint>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::control {

class SharedWatch {
 public:
  // `wakeup` ends the main thread's wait; each of `captures`, where it is not -1, tells it of bytes
  // that came, once.
  static Result<SharedWatch> make(int link, int wakeup, int stdout_capture, int stderr_capture);

  // ---- the main thread's ----

  struct News {
    bool signal = false;   // One has ended the wait.
    bool wakeup = false;   // It is set.
    bool capture = false;  // Bytes came; they are for the I/O thread, which does not know of them.
  };
  // Until something came or the time is over. The link is to be read after it in any case: what
  // ended the wait was kept from the I/O thread.
  News wait(int timeout_ms);

  // When the main thread leaves to work, the I/O thread is woken after `nanoseconds`, unless it is
  // back before: short cells pass without that.
  void leave(int64_t nanoseconds);
  void come_back();

  // ---- what the I/O thread polls ----

  int link() const { return io_.get(); }
  int timer() const { return timer_.get(); }
  void clear_timer();

 private:
  local::Fd main_;
  local::Fd io_;
  local::Fd timer_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_SHARED_WATCH_H_
