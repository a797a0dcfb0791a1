#include "transport/shm/socket.h"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/descriptors.h"

namespace sk::shm {
namespace {

socklen_t abstract_address(const Secret& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::string text = "sk-";
  for (const unsigned char byte : name) text += fmt::format("{:02x}", byte);
  // A leading zero byte makes the name abstract: it lives and dies with the socket.
  memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

Result<Fd> open_socket() {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return socket_error("cannot open a socket");
  return fd;
}

Result<uid_t> user_of(const Fd& socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error("cannot ask for a peer's credentials");
  return peer.uid;
}

// Room for the descriptors of one packet.
struct Rights {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
};

}  // namespace

Status socket_error(const std::string& what) {
  if (errno != EMFILE) return system_error(what);
  const std::string limit = descriptors_text();
  errno = EMFILE;
  return system_error(fmt::format("{} ({})", what, limit));
}

Result<Fd> listen_at(const Secret& name, int connections) {
  SK_ASSIGN_OR_RETURN(Fd listener, open_socket());
  sockaddr_un address;
  const socklen_t size = abstract_address(name, address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return system_error("cannot name a Unix socket");
  if (listen(listener.get(), connections) != 0)
    return system_error("cannot listen on a Unix socket");
  return listener;
}

Result<Dialed> dial(const Secret& name, const std::string& whom, Fd& socket) {
  SK_ASSIGN_OR_RETURN(Fd opened, open_socket());
  sockaddr_un address;
  const socklen_t size = abstract_address(name, address);
  if (connect(opened.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    if (errno == EAGAIN || errno == EINTR) return Dialed::kFull;
    if (errno == ECONNREFUSED) return Dialed::kRefused;
    return system_error(fmt::format("cannot connect to {}", whom));
  }
  SK_ASSIGN_OR_RETURN(const uid_t user, user_of(opened));
  if (user != geteuid()) {
    return error(SK_ERR_TRUST, "{} runs as user {}, this rank as user {}", whom, user, geteuid());
  }
  socket = std::move(opened);
  return Dialed::kConnected;
}

Result<bool> accept_one(const Fd& listener, Fd& connection) {
  Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) {
    if (errno == EAGAIN) return false;
    if (errno == EINTR || errno == ECONNABORTED) return true;
    return socket_error("cannot accept a peer's connection");
  }
  // Any user may knock at an abstract name. A rank of another user finds out by itself: its own
  // connection shows it ours.
  SK_ASSIGN_OR_RETURN(const uid_t user, user_of(accepted));
  if (user == geteuid()) connection = std::move(accepted);
  return true;
}

Result<Carried> send_packet(const Fd& socket, std::span<const std::byte> bytes,
                            std::span<const int> descriptors) {
  iovec part = {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  Rights rights;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = rights.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0) return Carried::kDone;
  // ETOOMANYREFS: too many descriptors of this user are under way; some will be taken in.
  if (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS) return Carried::kLater;
  if (errno == EPIPE || errno == ECONNRESET) return Carried::kBroken;
  return system_error("cannot send to a peer");
}

Result<Carried> receive_packet(const Fd& socket, std::span<std::byte> bytes, Packet& packet) {
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  Rights rights;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = rights.bytes;
  message.msg_controllen = sizeof(rights.bytes);
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Carried::kLater;
  if (got <= 0) return Carried::kBroken;
  packet.size = size_t(got);
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
      packet.descriptors.emplace_back(fd);
    }
  }
  packet.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  return Carried::kDone;
}

Result<Fd> duplicate(const Fd& connection, const std::string& what) {
  Fd copy(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return socket_error(what);
  return copy;
}

// The kernel drops what finds no room, and says only that it did.
Status no_descriptors_left(const std::string& whose) {
  errno = EMFILE;
  return socket_error(fmt::format("cannot take in {}'s descriptors", whose));
}

}  // namespace sk::shm
