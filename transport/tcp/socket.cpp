#include "transport/tcp/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "lib/base/descriptors.h"
#include "lib/base/fork_lock.h"
#include "transport/bootstrap/kinds.h"
#include "transport/tcp/answers.h"

namespace sk::tcp {

struct OpenSockets {
  std::vector<Socket*> all;
  static OpenSockets& get() {
    static OpenSockets* instance = new OpenSockets;  // Never freed: threads may outlive it.
    return *instance;
  }
  // With the lock, from the descriptor's making on: a child that is forked between has it, too.
  static std::unique_ptr<Socket> keep(int fd) {
    std::unique_ptr<Socket> socket(new Socket(fd));
    get().all.push_back(socket.get());
    return socket;
  }
  static void close_in_child() {
    for (Socket* each : get().all) close(std::exchange(each->fd_, -1));
    get().all.clear();
  }
};

namespace {

ForkLock open_sockets_lock(&OpenSockets::close_in_child);

// Where a host has gone, nothing comes back: not even that there is nobody. Who waits finds that by
// what goes unanswered (look_after()), long before the kernel does: that one ends what it gives up
// by a reset, which a peer who still hears could not tell from the end of a process.
constexpr int kIdleS = 1, kProbeS = 1, kProbes = 60;
constexpr uint32_t kUnansweredMin = 2;  // One may have been lost by itself.

std::string errno_text(int number) { return std::generic_category().message(number); }

// What a failed call says of the connection.
Status broken(int number) {
  if (number == EPIPE || number == ECONNRESET)
    return error(SK_ERR_PEER_LOST, "its end is closed ({})", errno_text(number));
  return error(SK_ERR_TRANSPORT, "{}", errno_text(number));
}

// Where what is missing is this process's own, what it may have.
Status no_socket(const char* what, int number) {
  return error(SK_ERR_NO_MEMORY, "{}: {}{}", what, errno_text(number),
               number == EMFILE ? "; " + descriptors_text() : "");
}

bool is_exhausted(int number) {
  return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

Status no_connection(int number) {
  const int32_t code = number == ECONNREFUSED ? SK_ERR_PEER_LOST : SK_ERR_TRANSPORT;
  return Status(code, errno_text(number));
}

bool is_passing(int number) {
  return number == EAGAIN || number == EINTR || number == ENOBUFS || number == ENOMEM;
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

void prepare(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleS);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeS);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

class SocketPipe final : public stream::Pipe {
 public:
  SocketPipe(SocketPtr socket, int64_t silence_ms)
      : socket_(std::move(socket)), silence_ms_(silence_ms) {}

  Result<size_t> send(std::span<const iovec> parts) override {
    if (parts.empty()) return size_t{0};
    msghdr message = {};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    const ssize_t sent = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return size_t(sent);
    if (is_passing(errno)) return size_t{0};
    return broken(errno);
  }

  Result<size_t> receive(std::span<std::byte> room) override {
    return received(recv(fd(), room.data(), room.size(), MSG_DONTWAIT), room.size());
  }

  Result<size_t> receive(std::span<std::byte> room, std::span<std::byte> behind) override {
    std::array<iovec, 2> parts = {iovec{room.data(), room.size()},
                                  iovec{behind.data(), behind.size()}};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return received(recvmsg(fd(), &message, MSG_DONTWAIT), room.size() + behind.size());
  }

  bool ended() const override { return ended_; }
  int fd() const override { return socket_->fd(); }

  bool delivered() const override {
    int left = 0;
    return ioctl(fd(), SIOCOUTQ, &left) != 0 || left == 0;
  }

  // TCP_USER_TIMEOUT would also end one whose peer answers but does not read: a stopped process is
  // none that is gone. Of such a one the kernel asks ever more rarely: that nothing has come for
  // long says something only of the time since it has asked.
  Status look_after() override {
    const std::optional<Answers> answers = answers_of(fd());
    if (!answers) return {};
    const int64_t now_ms = bootstrap_clock_ns() / 1'000'000;
    const bool heard = std::exchange(answers_, answers->count) != answers->count;
    if (answers->unanswered == 0 || heard) asked_ms_ = now_ms;
    const int64_t silent_ms = now_ms - asked_ms_ + (answers->probing ? kIdleS * 1000 : 0);
    if (answers->unanswered < kUnansweredMin || silent_ms < silence_ms_) return {};
    return error(SK_ERR_TRANSPORT, "its host has not answered for {} ms", silent_ms);
  }

 private:
  Result<size_t> received(ssize_t came, size_t room) {
    if (came > 0) return size_t(came);
    if (came == 0) {
      ended_ = room > 0;
      return size_t{0};
    }
    if (is_passing(errno)) return size_t{0};
    return broken(errno);
  }

  const SocketPtr socket_;
  const int64_t silence_ms_;
  int64_t asked_ms_ = 0;  // When look_after() first saw what is unanswered since,
  uint64_t answers_ = 0;  // behind so many answers.
  bool ended_ = false;
};

}  // namespace

Socket::~Socket() {
  const std::lock_guard lock(open_sockets_lock);
  std::erase(OpenSockets::get().all, this);
  if (fd_ >= 0) close(fd_);
}

namespace {

Result<SocketPtr> new_socket(int family) {
  const std::lock_guard lock(open_sockets_lock);
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) return OpenSockets::keep(fd);
  if (is_exhausted(errno)) return no_socket("no socket", errno);
  return system_error("socket()");
}

Result<SocketPtr> socket_to_listen(int family) {
  SK_ASSIGN_OR_RETURN(SocketPtr made, new_socket(family));
  if (family == AF_INET6) set(made->fd(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  // Connections of an earlier communicator may still have the port.
  set(made->fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  return made;
}

void set_port(Address& address, int port) {
  if (address.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(uint16_t(port));
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(uint16_t(port));
  }
}

Status cannot_listen(const Address& at, int first, int last) {
  const int number = errno;
  const std::string text = at.text();
  if (number != EADDRINUSE || first == 0)
    return error(SK_ERR_TRANSPORT, "cannot listen at {}: {}", text, errno_text(number));
  return error(SK_ERR_TRANSPORT, "SK_PORT_RANGE is \"{}-{}\": none of these ports is free at {}",
               first, last, text.substr(0, text.rfind(':')));
}

}  // namespace

Result<SocketPtr> listen_at(const Address& address, int first, int last, Address* bound) {
  SK_ASSIGN_OR_RETURN(SocketPtr made, socket_to_listen(address.family()));
  for (int port = first; port <= last; ++port) {
    *bound = address;
    set_port(*bound, port);
    if (bind(made->fd(), bound->get(), bound->bytes) != 0) {
      if (errno == EADDRINUSE && port < last) continue;
      return cannot_listen(*bound, first, last);
    }
    if (listen(made->fd(), SOMAXCONN) != 0) {
      if (errno == EADDRINUSE && port < last) {
        SK_ASSIGN_OR_RETURN(made, socket_to_listen(address.family()));
        continue;
      }
      return cannot_listen(*bound, first, last);
    }
    bound->bytes = sizeof(bound->storage);
    if (getsockname(made->fd(), reinterpret_cast<sockaddr*>(&bound->storage), &bound->bytes) != 0)
      return system_error("getsockname()");
    return made;
  }
  return error(SK_ERR_INVALID_ARGUMENT, "no port from {} to {}", first, last);
}

SocketPtr accept_one(const Socket& listener, Status* failed) {
  SocketPtr socket;
  {
    const std::lock_guard lock(open_sockets_lock);
    const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) socket = OpenSockets::keep(fd);
  }
  if (!socket) {
    if (is_exhausted(errno)) *failed = no_socket("no connection can be taken", errno);
    return nullptr;
  }
  prepare(socket->fd());
  return socket;
}

Result<SocketPtr> dial(const Address& address, bool* under_way) {
  SK_ASSIGN_OR_RETURN(SocketPtr made, new_socket(address.family()));
  prepare(made->fd());
  *under_way = false;
  if (connect(made->fd(), address.get(), address.bytes) == 0) return made;
  if (errno != EINPROGRESS) return no_connection(errno).with_context(address.text());
  *under_way = true;
  return made;
}

Status dialed(const Socket& socket) {
  int number = 0;
  socklen_t bytes = sizeof(number);
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &number, &bytes) != 0) number = errno;
  return number == 0 ? Status() : no_connection(number);
}

std::unique_ptr<stream::Pipe> make_pipe(SocketPtr socket, int64_t silence_ms) {
  return std::make_unique<SocketPipe>(std::move(socket), silence_ms);
}

}  // namespace sk::tcp
