#include "transport/bootstrap/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "transport/bootstrap/address.h"

namespace sk {
namespace {

constexpr uint32_t kFrameMagic = 0x316b6673;  // "sfk1"

struct FrameHeader {
  uint32_t magic;
  FrameKind kind;
  int32_t code;
  uint32_t reserved;
  uint64_t sequence;
  uint64_t bytes;
};
static_assert(sizeof(FrameHeader) == 32);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<Mac> hello_proof(const std::string& secret, const MemberHello& hello) {
  return hmac(as_bytes(secret), {as_bytes("sk bootstrap hello"),
                                 bytes_of(hello).first(offsetof(MemberHello, proof))});
}

Result<SessionKeys> derive_keys(const std::string& secret, const MemberHello& member,
                                const HubHello& hub) {
  const auto derive = [&](const char* label) {
    return hmac(as_bytes(secret), {as_bytes(label), bytes_of(member), hub.nonce});
  };
  SessionKeys keys;
  SK_ASSIGN_OR_RETURN(keys.hub_proof, derive("sk bootstrap hub proof"));
  SK_ASSIGN_OR_RETURN(keys.member_proof, derive("sk bootstrap member proof"));
  SK_ASSIGN_OR_RETURN(keys.hub_frames, derive("sk bootstrap hub frames"));
  SK_ASSIGN_OR_RETURN(keys.member_frames, derive("sk bootstrap member frames"));
  return keys;
}

Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      out_at_(other.out_at_),
      at_end_(other.at_end_),
      send_key_(other.send_key_),
      receive_key_(other.receive_key_),
      send_sequence_(other.send_sequence_),
      receive_sequence_(other.receive_sequence_) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(out_at_, other.out_at_);
  std::swap(at_end_, other.at_end_);
  std::swap(send_key_, other.send_key_);
  std::swap(receive_key_, other.receive_key_);
  std::swap(send_sequence_, other.send_sequence_);
  std::swap(receive_sequence_, other.receive_sequence_);
  return *this;
}

// Input that nobody read would make close() a reset, which can overtake what was sent last.
Channel::~Channel() {
  if (fd_ < 0) return;
  shutdown(fd_, SHUT_WR);
  char unread[4096];
  for (int i = 0; i < 64 && recv(fd_, unread, sizeof(unread), MSG_DONTWAIT) > 0; ++i) {
  }
  close(fd_);
}

void Channel::send_at_once() {
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool Channel::own_address(Address& out) const {
  out.bytes = sizeof(out.storage);
  return getsockname(fd_, reinterpret_cast<sockaddr*>(&out.storage), &out.bytes) == 0 &&
         (out.family() == AF_INET || out.family() == AF_INET6);
}

short Channel::wanted_events() const { return short(POLLIN | (has_output() ? POLLOUT : 0)); }

Status Channel::pump_output() {
  while (has_output()) {
    const ssize_t sent =
        send(fd_, &out_[out_at_], out_.size() - out_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (sent < 0) return system_error("send");
    out_at_ += size_t(sent);
  }
  out_.clear();
  out_at_ = 0;
  return {};
}

// A failed send does not end it before what the other side said last has been read.
Status Channel::pump(uint64_t input_bytes_max) {
  Status sent = pump_output();
  char chunk[65536];
  while (true) {
    if (in_.size() > input_bytes_max) return sent;
    const uint64_t room = std::min<uint64_t>(sizeof(chunk) - 1, input_bytes_max - in_.size());
    const ssize_t got = recv(fd_, chunk, room + 1, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return sent;
    if (got < 0) return system_error("receive");
    if (got == 0) {
      // The end is told once what came before it has been taken.
      if (std::exchange(at_end_, true) || in_.empty()) {
        return error(SK_ERR_PEER_LOST, "the connection was closed");
      }
      return {};
    }
    in_.append(chunk, size_t(got));
    if (size_t(got) < room + 1) return sent;
  }
}

void Channel::start_frames(const Mac& send_key, const Mac& receive_key) {
  send_key_ = send_key;
  receive_key_ = receive_key;
}

Status Channel::put_frame(FrameKind kind, int32_t code, std::span<const std::byte> payload) {
  const FrameHeader header = {kFrameMagic, kind, code, 0, send_sequence_++, payload.size()};
  SK_ASSIGN_OR_RETURN(const Mac mac, hmac(send_key_, {bytes_of(header), payload}));
  put(header);
  out_.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  put(mac);
  return pump_output();
}

Result<std::optional<Frame>> Channel::take_frame(uint64_t payload_bytes_max) {
  if (in_.size() < sizeof(FrameHeader)) return std::optional<Frame>();
  FrameHeader header;
  std::memcpy(&header, in_.data(), sizeof(header));
  if (header.magic != kFrameMagic || header.sequence != receive_sequence_ ||
      header.bytes > payload_bytes_max) {
    return error(SK_ERR_TRANSPORT, "a frame of the bootstrap is malformed");
  }
  const size_t mac_at = sizeof(header) + header.bytes;
  if (in_.size() < mac_at + sizeof(Mac)) return std::optional<Frame>();
  Frame frame{header.kind, header.code, in_.substr(sizeof(header), header.bytes)};
  SK_ASSIGN_OR_RETURN(const Mac mac,
                      hmac(receive_key_, {bytes_of(header), as_bytes(frame.payload)}));
  if (!equal_mac(mac, as_bytes(in_).subspan(mac_at, sizeof(Mac)))) {
    return error(SK_ERR_TRUST, "a frame of the bootstrap has a wrong MAC");
  }
  in_.erase(0, mac_at + sizeof(Mac));
  ++receive_sequence_;
  return std::optional<Frame>(std::move(frame));
}

}  // namespace sk
