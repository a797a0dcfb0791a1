// How ranks get each other's descriptors: every rank listens, sends its own descriptor to every
// peer at once, and then takes in what the peers sent; nobody waits before it has sent.
#ifndef SK_TRANSPORT_SHM_HANDSHAKE_H_
#define SK_TRANSPORT_SHM_HANDSHAKE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "transport/bootstrap/cancel.h"
#include "transport/session.h"
#include "transport/shm/fd.h"
#include "transport/shm/segment.h"

namespace sk::shm {

using Deadline = std::chrono::steady_clock::time_point;

struct Peer {
  uint32_t rank = 0;
  Secret name;    // Of its socket.
  Secret secret;  // What its socket asks for: shown to this job's ranks only.

  // Filled by exchange().
  std::shared_ptr<Segment> segment;
  pid_t process = 0;  // 0: not visible from here.
  Fd pidfd;           // Readable once the process has ended. None where pids are not visible.
  // The connections to and from it stay open until all ranks have finished: one that hangs up
  // before says that the peer gave up. Where pidfd is none, `incoming` goes on telling of its end.
  Fd outgoing;
  Fd incoming;
};

// A socket with the abstract name `name` that up to `world_size` connections may wait at.
Result<Fd> listen_at(const Secret& name, uint32_t world_size);

struct ExchangeInput {
  uint32_t rank;
  Secret secret;
  const Segment& own;
  const SegmentLayout& layout;
  const Fd& listener;
  Deadline deadline;
  bool use_pidfd;
  const Cancel& cancel;
};

// Sends the own segment to all `peers`, which are other processes, and takes in theirs. Sets
// `secondary` where it failed only because another rank gave up. `pending` are connections that
// were accepted and not read: closing one tells the other end that this rank gave up.
Status exchange(const ExchangeInput& input, std::vector<Peer>& peers, std::vector<Fd>& pending,
                bool& secondary);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_HANDSHAKE_H_
