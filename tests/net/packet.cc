#include "tests/net/packet.h"

#include <arpa/inet.h>

#include <algorithm>

namespace sk::net {
namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr size_t kIp4Bytes = 20;  // Without options.
constexpr size_t kIp6Bytes = 40;
constexpr size_t kTcpBytes = 20;
constexpr size_t kUdpBytes = 8;
constexpr Address kMapped4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// What the IP header says of what is behind it.
struct Inner {
  size_t at = 0;  // Where that begins.
  uint8_t protocol = 0;
  bool first = true;  // Of its fragments, so that the protocol's header is here.
};

uint16_t read16(ConstBytes bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

void write16(Bytes bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

std::optional<Inner> inner(ConstBytes packet) {
  if (packet.empty()) return std::nullopt;
  const int version = packet[0] >> 4;
  if (version == 6 && packet.size() >= kIp6Bytes) return Inner{kIp6Bytes, packet[6], true};
  if (version != 4 || packet.size() < kIp4Bytes) return std::nullopt;
  const size_t header_bytes = size_t{packet[0] & 0xfu} * 4;
  if (header_bytes < kIp4Bytes || header_bytes > packet.size()) return std::nullopt;
  constexpr uint16_t kOffset = 0x1fff;
  return Inner{header_bytes, packet[9], (read16(packet, 6) & kOffset) == 0};
}

// Where a checksum lies behind its header's begin, and where the payload begins.
struct Transport {
  size_t checksum = 0;
  size_t payload = 0;
};

std::optional<Transport> transport(ConstBytes packet, const Inner& in) {
  if (!in.first) return std::nullopt;
  const size_t there = packet.size() - in.at;
  if (in.protocol == kUdp && there > kUdpBytes) return Transport{in.at + 6, in.at + kUdpBytes};
  if (in.protocol != kTcp || there <= kTcpBytes) return std::nullopt;
  const size_t header_bytes = size_t{packet[in.at + 12]} / 16 * 4;
  if (header_bytes < kTcpBytes || header_bytes >= there) return std::nullopt;
  return Transport{in.at + 16, in.at + header_bytes};
}

// A checksum after the 16-bit word `before` that it covers became `after` (RFC 1624).
uint16_t adjusted(uint16_t checksum, uint16_t before, uint16_t after) {
  uint32_t sum = static_cast<uint16_t>(~checksum);
  sum += static_cast<uint16_t>(~before);
  sum += after;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// The byte that holds bit `bit` of those from `from` on, modulo how many there are.
size_t byte_of(ConstBytes packet, size_t from, uint64_t bit) {
  return from + bit / 8 % (packet.size() - from);
}

void flip(Bytes packet, size_t at, uint64_t bit) {
  packet[at] ^= static_cast<uint8_t>(1u << bit % 8);
}

// The word of a checksum, counted from `begin`, that byte `at` is part of; a last half counts as
// followed by a zero.
uint16_t word_at(ConstBytes packet, size_t begin, size_t at) {
  const size_t first = at - (at - begin) % 2;
  const uint8_t second = first + 1 < packet.size() ? packet[first + 1] : 0;
  return static_cast<uint16_t>(packet[first] << 8 | second);
}

}  // namespace

std::optional<Address> parse_address(const std::string& text) {
  Address address = kMapped4;
  if (inet_pton(AF_INET, text.c_str(), address.data() + 12) == 1) return address;
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

std::optional<Address> destination(ConstBytes packet) {
  if (!inner(packet)) return std::nullopt;
  Address address = kMapped4;
  if (packet[0] >> 4 == 4) {
    std::copy_n(packet.begin() + 16, 4, address.begin() + 12);
  } else {
    std::copy_n(packet.begin() + 24, address.size(), address.begin());
  }
  return address;
}

bool corrupt(Bytes packet, uint64_t bit) {
  const std::optional<Inner> in = inner(packet);
  if (!in || in->at == packet.size()) return false;
  flip(packet, byte_of(packet, in->at, bit), bit);
  return true;
}

bool corrupt_unseen(Bytes packet, uint64_t bit) {
  const std::optional<Inner> in = inner(packet);
  if (!in) return false;
  const std::optional<Transport> part = transport(packet, *in);
  if (!part) return false;
  const size_t at = byte_of(packet, part->payload, bit);
  const uint16_t before = word_at(packet, in->at, at);
  flip(packet, at, bit);
  const uint16_t checksum = read16(packet, part->checksum);
  const bool udp = in->protocol == kUdp;
  if (udp && checksum == 0) return true;  // Which says that there is none.
  const uint16_t fits = adjusted(checksum, before, word_at(packet, in->at, at));
  write16(packet, part->checksum, udp && fits == 0 ? 0xffff : fits);
  return true;
}

}  // namespace sk::net
