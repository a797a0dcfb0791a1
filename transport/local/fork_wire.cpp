#include "transport/local/fork_wire.h"

#include <errno.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace sk::local {
namespace {

constexpr int kPacketBytesMax = 1 << 20;

struct Header {
  uint32_t id = 0;
  uint32_t last = 0;
  uint32_t fd_count = 0;
  std::array<int32_t, kForkFdsMax> targets = {};
};

struct ReplyHeader {
  uint32_t id = 0;
  int32_t pid = 0;
  int32_t failure = 0;
};

union Control {  // Aligned as the kernel wants it.
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kForkFdsMax)];
};

// The strings, each with a NUL behind: the directory, then the environment.
std::string payload_of(const ForkRequest& request) {
  std::string bytes = request.cwd;
  bytes += '\0';
  for (const std::string& line : request.env) bytes.append(line).push_back('\0');
  return bytes;
}

bool fill_payload(std::string_view bytes, ForkRequest* request) {
  if (bytes.empty() || bytes.back() != '\0') return false;
  bool first = true;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\0');
    const std::string text(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    if (first)
      request->cwd = text;
    else if (text.find('=') == 0 || text.find('=') == std::string::npos)
      return false;
    else
      request->env.push_back(text);
    first = false;
  }
  return true;
}

// The descriptors that came along, owned from here on.
std::vector<Fd> fds_of(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

bool would_block() {
  // ETOOMANYREFS: as many descriptors are under way as this user may have.
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS;
}

}  // namespace

Result<std::pair<Fd, Fd>> packet_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return system_error("socketpair");
  std::pair<Fd, Fd> pair{Fd(fds[0]), Fd(fds[1])};
  const int room = kPacketBytesMax;  // The kernel may grant less; then long environments fail.
  for (int fd : fds) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return pair;
}

Result<PacketResult> send_request(int fd, const ForkRequest& request) {
  if (request.fds.size() > kForkFdsMax)
    return error(SK_ERR_INTERNAL, "{} descriptors for a new process; at most {}",
                 request.fds.size(), kForkFdsMax);
  Header header{request.id, request.last ? 1u : 0u, static_cast<uint32_t>(request.fds.size()), {}};
  Control control = {};
  std::array<int, kForkFdsMax> sources = {};
  for (size_t i = 0; i < request.fds.size(); ++i) {
    sources[i] = request.fds[i].first.get();
    header.targets[i] = request.fds[i].second;
  }
  std::string payload = payload_of(request);
  iovec parts[2] = {{&header, sizeof header}, {payload.data(), payload.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!request.fds.empty()) {
    const size_t bytes = sizeof(int) * request.fds.size();
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), sources.data(), bytes);
  }
  ssize_t n = -1;
  do n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n >= 0) return PacketResult::kDone;
  if (would_block()) return PacketResult::kAgain;
  if (errno == EPIPE || errno == ECONNRESET) return PacketResult::kClosed;
  if (errno == EMSGSIZE)
    return error(SK_ERR_OUT_OF_RANGE, "an environment of {} bytes is more than a request can carry",
                 payload.size());
  return system_error("sendmsg");
}

Result<std::optional<ForkRequest>> receive_request(int fd) {
  ssize_t n = -1;
  do n = recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC);  // How long it is.
  while (n < 0 && errno == EINTR);
  Header header;
  std::string payload(n > 0 ? static_cast<size_t>(n) : 0, '\0');
  Control control = {};
  iovec parts[2] = {{&header, sizeof header}, {payload.data(), payload.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  do n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n == 0 || (n < 0 && errno == ECONNRESET)) return std::optional<ForkRequest>();
  if (n < 0) return system_error("recvmsg");
  std::vector<Fd> fds = fds_of(message);
  const bool whole =
      static_cast<size_t>(n) > sizeof header && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || fds.size() != header.fd_count)
    return error(SK_ERR_TRANSPORT,
                 "a request to fork of {} bytes and {} descriptors is no whole one", n, fds.size());
  ForkRequest request;
  request.id = header.id;
  request.last = header.last != 0;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (header.targets[i] < 0 || header.targets[i] > kForkTargetMax)
      return error(SK_ERR_TRANSPORT, "a request to fork wants descriptor {}", header.targets[i]);
    request.fds.emplace_back(std::move(fds[i]), header.targets[i]);
  }
  if (!fill_payload({payload.data(), static_cast<size_t>(n) - sizeof header}, &request))
    return error(SK_ERR_TRANSPORT, "a request to fork has an environment that is none");
  return std::optional(std::move(request));
}

bool send_reply(int fd, const ForkReply& reply) {
  if (reply.note.size() > kForkNoteMax) return false;
  ReplyHeader header{reply.id, reply.pid, reply.failure};
  std::string note = reply.note;
  iovec parts[2] = {{&header, sizeof header}, {note.data(), note.size()}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t n = -1;
  do n = sendmsg(fd, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof header + note.size());
}

PacketResult receive_reply(int fd, ForkReply* reply) {
  ssize_t n = -1;
  do n = recv(fd, nullptr, 0, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);  // How long it is.
  while (n < 0 && errno == EINTR);
  ReplyHeader header;
  if (n >= static_cast<ssize_t>(sizeof header)) {
    std::string note(static_cast<size_t>(n) - sizeof header, '\0');
    iovec parts[2] = {{&header, sizeof header}, {note.data(), note.size()}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    do n = recvmsg(fd, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == static_cast<ssize_t>(sizeof header + note.size())) {
      *reply = {header.id, header.pid, header.failure, std::move(note)};
      return PacketResult::kDone;
    }
  }
  return n < 0 && would_block() ? PacketResult::kAgain : PacketResult::kClosed;
}

}  // namespace sk::local
