#include "transport/shm/handshake.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; older headers do not name it.
#endif

namespace sk::shm {
namespace {

constexpr int kAcceptsAtOnce = 1024;
constexpr size_t kSilentMax = 64;

// The one packet of a connection, with the sender's descriptor beside it.
struct Hello {
  Secret secret;  // The receiver's.
  uint32_t rank;  // The sender's.
};

socklen_t abstract_address(const Secret& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::string text = "sk-";
  for (const unsigned char byte : name) text += fmt::format("{:02x}", byte);
  // A leading zero byte makes the name abstract: it lives and dies with the socket.
  memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

// Where descriptors ran out, the sentence says how many there may be.
Status socket_error(const std::string& what) {
  const int cause = errno;
  rlimit limit = {};
  const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
  errno = cause;
  if (cause != EMFILE || !known) return system_error(what);
  return system_error(fmt::format("{} (limit of descriptors: {})", what, limit.rlim_cur));
}

Result<Fd> open_socket() {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return socket_error("cannot open a socket");
  return fd;
}

Result<ucred> credentials(const Fd& socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return system_error("cannot ask for a peer's credentials");
  }
  return peer;
}

bool hung_up(const Fd& socket) {
  pollfd entry = {.fd = socket.get(), .events = 0, .revents = 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

// None where pids cannot be seen. A peer that is still connected after the pidfd was opened was
// alive then, so the pid was not another process's.
Result<Fd> open_pidfd(const Fd& socket, pid_t process) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) != 0) {
    fd = process > 0 ? static_cast<int>(syscall(SYS_pidfd_open, process, 0)) : -1;
  }
  if (fd < 0 && errno == EMFILE) return socket_error("cannot watch a peer's process");
  Fd pidfd(fd);
  return hung_up(socket) ? Fd() : std::move(pidfd);
}

class Exchange {
 public:
  Exchange(const ExchangeInput& input, std::vector<Peer>& peers, std::vector<Fd>& pending,
           bool& secondary)
      : in_(input), peers_(peers), pending_(pending), secondary_(secondary) {}
  Status run();

 private:
  Status send_to(Peer& peer);
  Status accept_some();
  Status receive(Fd connection);
  Status take(const Hello& hello, Fd segment, Fd connection);
  Status wait();
  Status gave_up(const Peer& peer);

  const ExchangeInput& in_;
  std::vector<Peer>& peers_;
  std::vector<Fd>& pending_;  // Accepted, and silent so far.
  bool& secondary_;
  bool unsent_ = true;
};

bool unmet(const Peer& peer) { return !peer.outgoing || !peer.segment; }

Status Exchange::run() {
  for (;;) {
    unsent_ = false;
    for (Peer& peer : peers_) {
      if (!peer.outgoing) SK_RETURN_IF_ERROR(send_to(peer));
      unsent_ |= !peer.outgoing;
    }
    SK_RETURN_IF_ERROR(accept_some());
    std::vector<Fd> pending = std::exchange(pending_, {});
    for (Fd& connection : pending) SK_RETURN_IF_ERROR(receive(std::move(connection)));
    if (std::none_of(peers_.begin(), peers_.end(), unmet)) return {};
    SK_RETURN_IF_ERROR(wait());
  }
}

// What it tells in the last gathering is the cause; this is not.
Status Exchange::gave_up(const Peer& peer) {
  secondary_ = true;
  return error(SK_ERR_PEER_LOST, "rank {} gave up while connecting", peer.rank);
}

// Leaves peer.outgoing empty where the peer's queue is full.
Status Exchange::send_to(Peer& peer) {
  SK_ASSIGN_OR_RETURN(Fd socket, open_socket());
  sockaddr_un address;
  const socklen_t address_size = abstract_address(peer.name, address);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), address_size) != 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    if (errno == ECONNREFUSED) return gave_up(peer);
    return system_error(fmt::format("cannot connect to rank {}", peer.rank));
  }
  SK_ASSIGN_OR_RETURN(const ucred owner, credentials(socket));
  if (owner.uid != geteuid()) {
    return error(SK_ERR_TRUST, "rank {} runs as user {}, this rank as user {}", peer.rank,
                 owner.uid, geteuid());
  }
  Hello hello = {.secret = peer.secret, .rank = in_.rank};
  iovec bytes = {.iov_base = &hello, .iov_len = sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = in_.own.fd();
  memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    // Too many descriptors of this user are under way: some will be taken in.
    if (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS) return {};
    if (errno == EPIPE || errno == ECONNRESET) return gave_up(peer);
    return system_error(fmt::format("cannot send to rank {}", peer.rank));
  }
  peer.outgoing = std::move(socket);
  return {};
}

// Not all at once: strangers who keep coming must not keep the ranks from being heard.
Status Exchange::accept_some() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Fd connection(accept4(in_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      // Any user may knock at an abstract name. A rank of another user finds out by itself: its
      // own connection shows it ours.
      SK_ASSIGN_OR_RETURN(const ucred owner, credentials(connection));
      if (owner.uid == geteuid()) pending_.push_back(std::move(connection));
      // A rank speaks as soon as it is connected: the oldest silent one is none.
      if (pending_.size() > peers_.size() + kSilentMax) pending_.erase(pending_.begin());
      continue;
    }
    if (errno == EAGAIN) return {};
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return socket_error("cannot accept a peer's connection");
  }
  return {};
}

Status Exchange::receive(Fd connection) {
  Hello hello = {};
  iovec bytes = {.iov_base = &hello, .iov_len = sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  if (size < 0) {
    if (errno == EAGAIN || errno == EINTR) pending_.push_back(std::move(connection));
    return {};  // Else it broke off: whether a rank is missed is seen by its own connection.
  }
  Fd segment;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    segment = Fd(fd);
  }
  // Whoever does not know the secret belongs to another job.
  if (size != sizeof(hello) || hello.secret != in_.secret) return {};
  if (!segment) {
    errno = EMFILE;  // The kernel drops what finds no room, and says only that it did.
    return socket_error(fmt::format("cannot take in rank {}'s descriptor", hello.rank));
  }
  return take(hello, std::move(segment), std::move(connection));
}

Status Exchange::take(const Hello& hello, Fd segment, Fd connection) {
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [&](const Peer& p) { return p.rank == hello.rank; });
  if (peer == peers_.end() || peer->segment) {
    return error(SK_ERR_TRUST, "a connection came from rank {}, which none was due from",
                 hello.rank);
  }
  SK_ASSIGN_OR_RETURN(const ucred owner, credentials(connection));
  SK_ASSIGN_OR_RETURN(peer->segment, Segment::attach(std::move(segment), in_.layout));
  peer->process = owner.pid;
  if (in_.use_pidfd) {
    SK_ASSIGN_OR_RETURN(peer->pidfd, open_pidfd(connection, owner.pid));
  }
  peer->incoming = std::move(connection);
  return {};
}

Status Exchange::wait() {
  using std::chrono::milliseconds;
  const auto left =
      std::chrono::ceil<milliseconds>(in_.deadline - std::chrono::steady_clock::now());
  if (left <= milliseconds(0)) {
    std::string ranks;
    for (const Peer& peer : peers_) {
      if (unmet(peer)) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", peer.rank);
    }
    return error(SK_ERR_TIMEOUT, "rank {} was not connected to rank {} in time", in_.rank, ranks);
  }
  std::vector<pollfd> entries = {{.fd = in_.listener.get(), .events = POLLIN, .revents = 0}};
  for (const Fd& connection : pending_) {
    entries.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
  }
  const size_t first_outgoing = entries.size();
  for (const Peer& peer : peers_) {
    entries.push_back({.fd = peer.outgoing.get(), .events = 0, .revents = 0});
  }
  // What could not be sent is tried again soon: no event tells that a peer's queue has room.
  const milliseconds longest = unsent_ ? milliseconds(1) : milliseconds(1000);
  SK_ASSIGN_OR_RETURN(
      [[maybe_unused]] const int ready,
      in_.cancel.poll(entries, std::chrono::nanoseconds(std::min(left, longest)).count()));
  for (size_t i = 0; i < peers_.size(); ++i) {
    // Whatever it has sent before: a rank that is done stays until all are.
    const bool closed = (entries[first_outgoing + i].revents & (POLLHUP | POLLERR)) != 0;
    if (closed) return gave_up(peers_[i]);
  }
  return {};
}

}  // namespace

Result<Fd> listen_at(const Secret& name, uint32_t world_size) {
  SK_ASSIGN_OR_RETURN(Fd listener, open_socket());
  sockaddr_un address;
  const socklen_t size = abstract_address(name, address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return system_error("cannot name a Unix socket");
  }
  // Any user may knock, so there is room for more than the ranks; the kernel cuts what is too much.
  if (listen(listener.get(), static_cast<int>(world_size) + SOMAXCONN) != 0) {
    return system_error("cannot listen on a Unix socket");
  }
  return listener;
}

Status exchange(const ExchangeInput& input, std::vector<Peer>& peers, std::vector<Fd>& pending,
                bool& secondary) {
  return Exchange(input, peers, pending, secondary).run();
}

}  // namespace sk::shm
