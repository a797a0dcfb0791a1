#include "transport/local/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>

namespace sk::local {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr int kPipeBytes = 256 * 1024;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

Result<std::pair<Fd, Fd>> socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return system_error("socketpair");
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Result<std::pair<Fd, Fd>> pipe_pair() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe2");
  // Room for what a rank prints between two batches. The kernel may refuse; then less fits.
  (void)fcntl(fds[1], F_SETPIPE_SZ, kPipeBytes);
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Status check_peer_is_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error("getsockopt(SO_PEERCRED)");
  if (peer.uid == geteuid()) return {};
  return error(SK_ERR_TRUST, "the process at the other end runs as user {}, this one as user {}",
               peer.uid, geteuid());
}

Result<pid_t> peer_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error("getsockopt(SO_PEERCRED)");
  return peer.pid;
}

Status set_nonblocking(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) != 0)
    return system_error("fcntl(O_NONBLOCK)");
  return {};
}

ReadResult read_some(int fd, std::string& out, size_t limit) {
  ReadResult result = ReadResult::kEmpty;
  char buffer[kReadBytes];  // Not the string itself: growing it would clear 64 KiB at each call.
  for (size_t taken = 0; taken < limit;) {
    const size_t wanted = std::min(sizeof buffer, limit - taken);
    ssize_t n = -1;
    do n = ::read(fd, buffer, wanted);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return result;
    // Bytes before the end are handed out first; the next call finds the end again.
    if (n <= 0) return result == ReadResult::kData ? result : ReadResult::kClosed;
    out.append(buffer, static_cast<size_t>(n));
    result = ReadResult::kData;
    if (static_cast<size_t>(n) < wanted) return result;
    taken += static_cast<size_t>(n);
  }
  return result;
}

size_t readable_bytes(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

Result<Link> Link::adopt(Fd fd) {
  SK_RETURN_IF_ERROR(set_nonblocking(fd.get(), true));
  Link link;
  link.fd_ = std::move(fd);
  return link;
}

bool Link::flush() {
  while (sent_ < outbox_.size()) {
    const ssize_t n =
        ::send(fd_.get(), outbox_.data() + sent_, outbox_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    sent_ += static_cast<size_t>(n);
    // Large outboxes are not moved for every small send.
    if (sent_ == outbox_.size() || sent_ > (8u << 20)) {
      outbox_.erase(0, sent_);
      sent_ = 0;
    }
  }
  return true;
}

bool wait_for(int fd, bool writable, int64_t timeout_ms) {
  const int64_t until = now_ms() + timeout_ms;
  while (true) {
    pollfd entry{fd, static_cast<short>(writable ? POLLOUT : POLLIN), 0};
    const int64_t left = std::clamp<int64_t>(until - now_ms(), 0, 1'000'000'000);
    const int n = ::poll(&entry, 1, static_cast<int>(left));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

Result<Fd> make_wakeup() {
  Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.open()) return system_error("eventfd");
  return fd;
}

void wake(int fd) {
  const uint64_t one = 1;
  ssize_t n = -1;
  do n = ::write(fd, &one, sizeof one);
  while (n < 0 && errno == EINTR);
}

void clear_wakeup(int fd) {
  uint64_t count = 0;
  ssize_t n = -1;
  do n = ::read(fd, &count, sizeof count);
  while (n < 0 && errno == EINTR);
}

// The kernel shares a port by SO_REUSEPORT within one user only, and by SO_REUSEADDR with
// everybody.
Result<HeldPort> hold_port(HeldFor whom) {
  const int option = whom == HeldFor::kThisUser ? SO_REUSEPORT : SO_REUSEADDR;
  HeldPort held;
  held.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!held.fd.open()) return system_error("socket");
  const int one = 1;
  if (setsockopt(held.fd.get(), SOL_SOCKET, option, &one, sizeof one) != 0)
    return system_error("setsockopt to hold a port");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(held.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return system_error("bind to a free port of 127.0.0.1");
  if (getsockname(held.fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return system_error("getsockname");
  held.port = ntohs(address.sin_port);
  return held;
}

}  // namespace sk::local
