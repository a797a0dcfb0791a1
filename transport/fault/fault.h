// Faults on purpose: a decorator that makes any transport as unkind as its contract allows.
//
// Puts, posts and entries are held back and delivered later, in random order; a put on an ordered
// session is cut into pieces that arrive in random order too, its signal with the last one. So the
// bytes of a put come before its signal, and nothing else is in order. Peers' memory is not mapped.
// A rank can be killed: it delivers nothing any more, perhaps in the middle of a put, and the
// others are told that it died. A put is told now and then that there is no room, and its source
// may be read only when it arrives.
//
// No thread and no clock drives it: every call on an endpoint delivers something now and then,
// progress(), check() and sleep() deliver more, whoever sent it. Whoever waits calls these, so
// nothing waits for ever where the ranks share one FaultNetwork (threads of one process). Ranks in
// processes of their own have a network each, and must go on calling check() until their peers are
// done.
#ifndef SK_TRANSPORT_FAULT_FAULT_H_
#define SK_TRANSPORT_FAULT_FAULT_H_

#include <cstdint>
#include <memory>

#include "transport/session.h"

namespace sk {

struct FaultConfig {
  uint64_t seed = 1;
  uint32_t hold_percent = 70;     // Of messages; the others are delivered at once.
  uint32_t held_max = 64;         // Messages held by the network; more push older ones out.
  uint32_t passed_over_max = 16;  // How often a held message may be left lying, at most.
  uint32_t drives_in_vain = 0;    // Calls of check() or sleep() that deliver nothing, before one;
                                  // progress() delivers nothing then.
  uint32_t again_percent = 20;    // Of puts: kAgain, and until the endpoint is driven.
  uint32_t later_percent = 30;    // Of puts that are taken: kLater.
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t kill_rank = kNobody;  // Dies with its message number `kill_message`, counted from 0.
  uint64_t kill_message = 0;
  uint64_t put_bytes_max = UINT64_MAX;  // Of its sessions, where the decorated ones allow more.
};

class FaultNetwork {
 public:
  virtual ~FaultNetwork() = default;
  // The network lives as long as an endpoint of it. Any thread.
  virtual std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> inner) = 0;
  // From now on nothing comes from `rank` or reaches it.
  virtual void kill(uint32_t rank) = 0;
  // How many messages have arrived after one that the same rank sent the same peer later.
  virtual uint64_t overtaken() const = 0;
};

std::shared_ptr<FaultNetwork> make_fault_network(const FaultConfig& config);

}  // namespace sk

#endif  // SK_TRANSPORT_FAULT_FAULT_H_
