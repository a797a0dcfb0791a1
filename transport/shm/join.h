// How the ranks of a host come to share memory: the lowest of them, the leader, makes the control
// memory; each makes its own segment. Every other rank connects to the leader and sends its
// segment's descriptor; once the leader has all, it sends each rank all of them, the control
// memory's, and the epoll by which they watch each other (watch.h). So a world of N ranks takes N
// connections, and none of them outlives it where PIDs can be seen.
//
// The leader also connects to each rank, which accepts nothing: such a connection only tells that
// the rank has ended, or given up, before it came.
#ifndef SK_TRANSPORT_SHM_JOIN_H_
#define SK_TRANSPORT_SHM_JOIN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "transport/bootstrap/cancel.h"
#include "transport/session.h"
#include "transport/shm/published.h"
#include "transport/shm/socket.h"
#include "transport/shm/watch.h"

namespace sk::shm {

using Deadline = std::chrono::steady_clock::time_point;

// How a rank can be met.
struct Contact {
  Secret name;    // Of its socket.
  Secret secret;  // What its socket asks for: shown to this job's ranks only.
  ProcessName process;
};

struct JoinInput {
  uint32_t rank;
  const std::vector<uint32_t>& ranks;    // Of this host, ascending: the first is the leader.
  const std::vector<Contact>& contacts;  // By rank.
  const SegmentLayout& layout;
  const Fd& listener;  // At the own name.
  Deadline deadline;
  bool use_pidfd;
  const Cancel& cancel;
};

struct Joined {
  std::shared_ptr<SharedMemory> control;                // One mapping for all ranks of a process.
  bool mapped_control = false;                          // It was this rank that mapped it.
  std::vector<std::shared_ptr<SharedMemory>> segments;  // By rank.
  Watch watch;
  // By rank, until all have joined: one that hangs up before says that the rank gave up. Where
  // `by_connection`, they go on telling of their processes' ends.
  std::vector<Fd> connections;
  bool by_connection = false;
  bool secondary = false;  // It failed only because another rank did.
};

// The leader's part and the others'; `joined` has what this process has already. On failure its
// connections are to stay open as long as others may still want to know why.
Status lead(const JoinInput& input, Joined& joined);
Status follow(const JoinInput& input, Joined& joined);

// What they tell each other: one packet each.
struct JoinPacket {
  enum class Kind : uint32_t { kHello, kShared, kSegments, kFailed };
  Kind kind = Kind::kHello;
  // kHello: the sender; kSegments: of the host's ranks, the how manyth is the first of those whose
  // descriptors follow.
  uint32_t rank = 0;
  int32_t code = 0;  // kFailed.
  uint32_t text_bytes = 0;
  Secret secret = {};   // kHello: the leader's.
  char text[464] = {};  // kFailed.
};

// Which of a connection's ends has gone first decides what is said: that `rank` gave up.
Status gave_up(uint32_t rank, Joined& joined);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_JOIN_H_
