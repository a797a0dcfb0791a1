// Waiting for many descriptors at once (epoll).
#ifndef SK_TRANSPORT_LOCAL_POLLER_H_
#define SK_TRANSPORT_LOCAL_POLLER_H_

#include <cstdint>
#include <vector>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

class Poller {
 public:
  struct Ready {
    uint64_t token = 0;
    bool readable = false;  // Or closed: a read tells.
    bool writable = false;
  };

  static Result<Poller> create();

  Status add(int fd, uint64_t token);
  // Which directions of an added descriptor are waited for.
  Status watch(int fd, uint64_t token, bool readable, bool writable);
  void remove(int fd);

  // Waits at most `timeout_ms`; an interrupting signal ends it early, with nothing.
  std::vector<Ready> wait(int64_t timeout_ms);

 private:
  Fd epoll_;
};

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_POLLER_H_
