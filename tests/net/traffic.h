// Numbered packets through a hub in virtual time, and judgements of what came out of it.
#ifndef SK_TESTS_NET_TRAFFIC_H_
#define SK_TESTS_NET_TRAFFIC_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/net/hub.h"

namespace sk::net {

// Of no protocol: four bytes that no corruption finds a header in.
inline Packet numbered(uint32_t number) {
  Packet packet(sizeof(number));
  std::memcpy(packet.data(), &number, sizeof(number));
  return packet;
}

inline uint32_t number_of(const Packet& packet) {
  uint32_t number = 0;
  std::memcpy(&number, packet.data(), sizeof(number));
  return number;
}

// The numbers of `count` packets from host 0 to host 1, one a microsecond, as they arrive.
inline std::vector<uint32_t> arrivals(const Settings& settings, uint64_t seed, uint32_t count,
                                      Hub::Draw draw = net::draw) {
  Hub hub(/*hosts=*/2, seed, draw);
  hub.settings(0, 1) = settings;
  std::vector<uint32_t> out;
  const auto take_until = [&](int64_t now_ns) {
    while (const auto arrival = hub.take(now_ns)) out.push_back(number_of(arrival->packet));
  };
  for (uint32_t i = 0; i < count; ++i) {
    take_until(int64_t{i} * 1000);
    hub.send(0, 1, numbered(i), int64_t{i} * 1000);
  }
  take_until(INT64_MAX);
  return out;
}

// Whether `found` of `count` independent events of probability `p` are as many as chance allows:
// six standard deviations, which a right program leaves once in 500 million times.
inline bool is_likely(uint64_t found, uint64_t count, double p) {
  return std::abs(double(found) - double(count) * p) <= 6 * std::sqrt(double(count) * p * (1 - p));
}

inline bool is_in_order(const std::vector<uint32_t>& numbers) {
  return std::is_sorted(numbers.begin(), numbers.end());
}

}  // namespace sk::net

#endif  // SK_TESTS_NET_TRAFFIC_H_
