// What a link does to one packet.
//
// It is drawn from the seed, the direction and the packet's number alone: the same traffic under
// the same seed meets the same faults, whatever the clock says, and a change of one setting leaves
// what the others do as it was.
#ifndef SK_TESTS_NET_FATE_H_
#define SK_TESTS_NET_FATE_H_

#include <cstdint>

namespace sk::net {

// Of one direction. What happens to a share of the packets is a number from 0 to 1.
struct Settings {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;         // These are late by reorder_us, and those behind overtake them.
  double corrupt = 0;         // One bit behind the IP header, where checksums see it.
  double corrupt_unseen = 0;  // One bit of what TCP or UDP carry, and a checksum that fits it.
  int64_t delay_us = 0;
  int64_t jitter_us = 0;  // Up to this much more, by chance; packets stay in order.
  int64_t reorder_us = 2000;
  int64_t rate_kbit = 0;          // 1000 bits a second; 0: without end.
  int64_t queue_packets = 4096;   // Under way at once; what comes then is dropped.
  int64_t packet_bytes = 65'535;  // Of the largest that comes through; larger ones are lost unsaid.
};

struct Fate {
  bool lost = false;
  bool duplicated = false;
  bool late = false;
  bool corrupted = false;
  bool corrupted_unseen = false;
  int64_t jitter_ns = 0;
  uint64_t bit = 0;  // Which one is flipped: any number, taken modulo how many there are.
};

// Packet `number` of `direction`, each counted from 0.
Fate draw(const Settings& settings, uint64_t seed, uint32_t direction, uint64_t number);

}  // namespace sk::net

#endif  // SK_TESTS_NET_FATE_H_
