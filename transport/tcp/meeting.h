// The ranks of several hosts connect: every pair that shares no host, by one connection.
//
// Both sides dial, the lower rank at once and the other some time later, all of the peer's
// addresses in turn and again; of the connections over which the peer has proven itself the lower
// rank picks the first.
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
  std::vector<uint32_t> peers;                  // Ranks of other hosts.
  std::vector<std::vector<Address>> addresses;  // By rank.
  const std::vector<SocketPtr>& listeners;      // The own ones.
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

// One of each peer, in their order. Of survivors those are left out that are not reached: one whose
// connection fell silent before is waited for as unreachable_ns() has it, another one half the
// time. SK_ERR_PEER_LOST: a rank is gone, as the bootstrap says, or a peer does not listen any
// more, for it has failed; what it tells says why.
Result<std::vector<Met>> meet(const MeetingInput& input);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_MEETING_H_
