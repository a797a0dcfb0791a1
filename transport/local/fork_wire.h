// What a controller and its template process say to each other: requests to fork, with the
// descriptors of the process to be, and answers. One message per packet of a Unix socket.
#ifndef SK_TRANSPORT_LOCAL_FORK_WIRE_H_
#define SK_TRANSPORT_LOCAL_FORK_WIRE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

inline constexpr size_t kForkFdsMax = 8;
inline constexpr size_t kForkBatchMax = 8;  // Processes; the first of them waits for the last.
inline constexpr int kForkTargetMax = 15;   // A descriptor's number in the new process.

// One process to fork.
struct ForkRequest {
  uint32_t id = 0;
  bool last = false;             // Of its batch: one intermediate process forks a batch.
  std::string cwd;               // "": where the template is.
  std::vector<std::string> env;  // "NAME=value" over the template's environment.
  // Descriptor here -> its number in the new process. Closed with the request.
  std::vector<std::pair<Fd, int>> fds;
};

// From the template: kForkReady once, when it can take requests; kForkDone after each batch, when
// its processes are the controller's children, and before they go on; kForkNote while it loads.
struct ForkReply {
  uint32_t id = 0;
  int32_t pid = 0;      // 0: not forked, because of
  int32_t failure = 0;  // this errno.
  std::string note{};   // Of a kForkNote.
};
inline constexpr uint32_t kForkReady = UINT32_MAX;
inline constexpr uint32_t kForkDone = UINT32_MAX - 1;
inline constexpr uint32_t kForkNote = UINT32_MAX - 2;
inline constexpr size_t kForkNoteMax = 64 * 1024;  // Bytes of one.

// Two connected ends that keep packets apart; both close-on-exec.
Result<std::pair<Fd, Fd>> packet_pair();

enum class PacketResult : uint8_t { kDone, kAgain, kClosed };

// Never waits. kAgain: no room now. An error concerns this request alone: it can never be sent.
Result<PacketResult> send_request(int fd, const ForkRequest& request);
// Waits for a request; nothing when the other end is gone. SK_ERR_TRANSPORT: it is none.
Result<std::optional<ForkRequest>> receive_request(int fd);

// False: the other end is gone, or the note too long.
bool send_reply(int fd, const ForkReply& reply);
// Never waits.
PacketResult receive_reply(int fd, ForkReply* reply);

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_FORK_WIRE_H_
