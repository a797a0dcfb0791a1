// Byte links between processes of one host: Unix stream sockets and pipes, never blocking.
//
// A link carries bytes in order and says when the other end is gone. Who the other end is, is
// known from the kernel (SO_PEERCRED): another user is refused.
#ifndef SK_TRANSPORT_LOCAL_LINK_H_
#define SK_TRANSPORT_LOCAL_LINK_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

// Two connected ends, both close-on-exec.
Result<std::pair<Fd, Fd>> socket_pair();
// Read end, write end; both close-on-exec, both blocking for whoever inherits them.
Result<std::pair<Fd, Fd>> pipe_pair();

// SK_ERR_TRUST unless the process at the other end of `fd` runs as this user.
Status check_peer_is_same_user(int fd);
// The process at the other end, which for a pair is the one that made it.
Result<pid_t> peer_process(int fd);

Status set_nonblocking(int fd, bool on);

enum class ReadResult : uint8_t { kData, kEmpty, kClosed };

inline constexpr size_t kReadBytesMax = 256 * 1024;

// Appends what is there, at most `limit` bytes, without waiting. Any read error counts as closed.
ReadResult read_some(int fd, std::string& out, size_t limit = kReadBytesMax);
// How many bytes a pipe or socket holds for its reader.
size_t readable_bytes(int fd);

class Link {
 public:
  Link() = default;
  // `fd` becomes non-blocking.
  static Result<Link> adopt(Fd fd);

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  void close() { fd_.reset(); }

  ReadResult read(std::string& out, size_t limit = kReadBytesMax) {
    return read_some(fd_.get(), out, limit);
  }

  // What `append` writes into goes out by the next flush().
  std::string& outbox() { return outbox_; }
  uint64_t queued_bytes() const { return outbox_.size() - sent_; }
  // Sends what the kernel takes now. False when the other end is gone.
  bool flush();

 private:
  Fd fd_;
  std::string outbox_;
  size_t sent_ = 0;
};

// Waits until `fd` is readable (or `writable`), at most `timeout_ms`. False: it was not. Signals
// do not end it early.
bool wait_for(int fd, bool writable, int64_t timeout_ms);

// A descriptor that one thread makes readable to wake another (eventfd).
Result<Fd> make_wakeup();
void wake(int fd);
void clear_wakeup(int fd);

// Who can still listen at a port that is held.
enum class HeldFor : uint8_t {
  kThisUser,    // A server of this user that sets SO_REUSEPORT, as gRPC's do.
  kAnyoneAsks,  // A server of any user that sets SO_REUSEADDR, as PyTorch's and most do.
};

// A port of 127.0.0.1 that nobody gets by chance while it is held. It is bound and does not listen.
struct HeldPort {
  Fd fd;
  uint16_t port = 0;
};
Result<HeldPort> hold_port(HeldFor whom);

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_LINK_H_
