// The ranks of several hosts connect: every pair that shares no host, by one connection.
//
// Both sides dial (pairing.h), the lower rank at once and the other some time later.
#ifndef SK_TRANSPORT_TCP_MEETING_H_
#define SK_TRANSPORT_TCP_MEETING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/bootstrap.h"
#include "transport/tcp/greeting.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace sk::tcp {

struct MeetingInput {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::vector<uint32_t> peers;                         // Ranks of other hosts, that are met.
  const std::vector<std::vector<Address>>& addresses;  // By rank.
  const std::vector<SocketPtr>& listeners;             // The own ones.
  MeetingKey key;
  int64_t deadline_ns = 0;  // On bootstrap_clock_ns().
  Bootstrap& bootstrap;     // Tells meanwhile who is gone, and when to give up.
  const TcpConfig& config;
};

struct Met {
  uint32_t rank = 0;
  std::string where;  // The address that answered, or was answered.
  std::unique_ptr<stream::Pipe> pipe;
};

struct Reached {
  std::vector<Met> met;          // One of each peer, in their order.
  std::vector<uint32_t> silent;  // Missing ones whose connection of before fell silent.
};

// Of survivors peers may be missing: one whose connection of before fell silent is waited for as
// unreachable_ns() has it, others until as much is left for what follows. SK_ERR_PEER_LOST: a rank
// is gone, as the bootstrap says, or a peer does not listen any more, for it has failed; what it
// tells says why.
Result<Reached> meet(const MeetingInput& input);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_MEETING_H_
