// Packets: whom they are for, and that a checksum sees the one damage and not the other.
#include "tests/net/packet.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>
#include <vector>

namespace sk::net {
namespace {

using Packet = std::vector<uint8_t>;

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp = 1;

// As the sender's and the receiver's kernel count: RFC 1071 over addresses, protocol, length, all.
uint16_t sum_of(const Packet& packet) {
  const bool four = packet[0] >> 4 == 4;
  const size_t inner = four ? 20 : 40;
  uint32_t sum = packet[four ? 9 : 6] + uint32_t(packet.size() - inner);
  const auto add = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) sum += uint32_t{packet[i]} << ((i - from) % 2 == 0 ? 8 : 0);
  };
  add(four ? 12 : 8, inner);
  add(inner, packet.size());
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return uint16_t(sum);
}

bool is_sound(const Packet& packet) { return sum_of(packet) == 0xffff; }

Packet make(int version, uint8_t protocol, size_t payload_bytes, std::mt19937_64& random) {
  const size_t inner = version == 4 ? 20 : 40;
  const size_t header = protocol == kTcp ? 20 : 8;
  Packet packet(inner + header + payload_bytes);
  for (uint8_t& byte : packet) byte = uint8_t(random());
  packet[0] = version == 4 ? 0x45 : 0x60;
  packet[version == 4 ? 9 : 6] = protocol;
  if (version == 4) packet[6] = packet[7] = 0;
  if (protocol == kTcp) packet[inner + 12] = 0x50;
  const size_t at = inner + (protocol == kTcp ? 16 : 6);
  packet[at] = packet[at + 1] = 0;
  const uint16_t checksum = uint16_t(~sum_of(packet));
  packet[at] = uint8_t(checksum >> 8);
  packet[at + 1] = uint8_t(checksum);
  return packet;
}

std::vector<size_t> flipped_bits(const Packet& a, const Packet& b, size_t from) {
  std::vector<size_t> out;
  for (size_t i = from * 8; i < a.size() * 8; ++i) {
    if (((a[i / 8] ^ b[i / 8]) >> i % 8 & 1) != 0) out.push_back(i);
  }
  return out;
}

TEST(Packet, IsForItsDestination) {
  std::mt19937_64 random(1);
  Packet four = make(4, kUdp, 1, random);
  for (size_t i = 0; i < 4; ++i) four[16 + i] = uint8_t(10 + i);
  EXPECT_EQ(destination(four), parse_address("10.11.12.13"));
  Packet six = make(6, kUdp, 1, random);
  const Address address = *parse_address("fd77::1:2");
  std::copy(address.begin(), address.end(), six.begin() + 24);
  EXPECT_EQ(destination(six), address);
  EXPECT_FALSE(parse_address("10.11.12").has_value());
  EXPECT_FALSE(destination({}).has_value());
  EXPECT_FALSE(destination(Packet(60)).has_value());
  EXPECT_FALSE(destination(ConstBytes(four).first(19)).has_value());
  EXPECT_FALSE(destination(ConstBytes(six).first(39)).has_value());
  four[0] = 0x4f;  // A header longer than the packet.
  EXPECT_FALSE(destination(ConstBytes(four).first(30)).has_value());
}

TEST(Packet, AFlippedBitIsSeenByTheChecksum) {
  std::mt19937_64 random(2);
  for (const int version : {4, 6}) {
    const size_t inner = version == 4 ? 20 : 40;
    const Packet sent = make(version, kTcp, 33, random);
    ASSERT_TRUE(is_sound(sent));
    std::set<size_t> seen;
    for (uint64_t bit = 0; bit < 53 * 8; ++bit) {
      Packet packet = sent;
      ASSERT_TRUE(corrupt(packet, bit));
      EXPECT_FALSE(is_sound(packet));
      const std::vector<size_t> bits = flipped_bits(sent, packet, 0);
      ASSERT_EQ(bits.size(), 1u);
      EXPECT_GE(bits[0], inner * 8);
      seen.insert(bits[0]);
    }
    EXPECT_EQ(seen.size(), 53u * 8);
  }
  Packet bare = make(4, kTcp, 0, random);
  bare.resize(20);
  EXPECT_FALSE(corrupt(bare, 0));
}

TEST(Packet, AnUnseenBitLeavesASoundChecksum) {
  std::mt19937_64 random(3);
  for (const int version : {4, 6}) {
    for (const uint8_t protocol : {kTcp, kUdp}) {
      for (size_t payload = 1; payload < 40; ++payload) {
        SCOPED_TRACE(testing::Message() << "IPv" << version << ", protocol " << int(protocol)
                                        << ", " << payload << " bytes");
        const Packet sent = make(version, protocol, payload, random);
        ASSERT_TRUE(is_sound(sent));
        Packet packet = sent;
        ASSERT_TRUE(corrupt_unseen(packet, random()));
        EXPECT_TRUE(is_sound(packet));
        EXPECT_EQ(flipped_bits(sent, packet, sent.size() - payload).size(), 1u);
      }
    }
  }
}

TEST(Packet, OptionsOfTcpAreNoPayload) {
  std::mt19937_64 random(4);
  Packet packet = make(4, kTcp, 12, random);
  packet[32] = 0x80;  // All twelve bytes are options.
  EXPECT_FALSE(corrupt_unseen(packet, 0));
}

TEST(Packet, WhereNoChecksumCoversItNothingIsDone) {
  std::mt19937_64 random(5);
  const auto untouched = [](Packet packet) {
    const Packet before = packet;
    return !corrupt_unseen(packet, 12345) && packet == before;
  };
  EXPECT_TRUE(untouched(make(4, kTcp, 0, random)));
  EXPECT_TRUE(untouched(make(6, kUdp, 0, random)));
  EXPECT_TRUE(untouched(make(4, kIcmp, 50, random)));
  Packet fragment = make(4, kUdp, 50, random);
  fragment[7] = 1;
  EXPECT_TRUE(untouched(fragment));
  EXPECT_TRUE(untouched(Packet(3)));
}

TEST(Packet, UdpWithoutAChecksumStaysSo) {
  std::mt19937_64 random(6);
  Packet packet = make(4, kUdp, 9, random);
  packet[26] = packet[27] = 0;
  const Packet sent = packet;
  ASSERT_TRUE(corrupt_unseen(packet, 17));
  EXPECT_EQ(flipped_bits(sent, packet, 0).size(), 1u);
  EXPECT_EQ(packet[26] + packet[27], 0);
}

}  // namespace
}  // namespace sk::net
