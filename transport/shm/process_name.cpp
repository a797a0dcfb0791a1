#include "transport/shm/process_name.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lib/base/process_name.h"
#include "transport/shm/socket.h"

namespace sk::shm {
namespace {

bool lacks_room(int cause) { return cause == EMFILE || cause == ENFILE || cause == ENOMEM; }

Result<uint64_t> start_time_of(pid_t pid) {
  const std::optional<uint64_t> start_time = process_start_time(pid);
  if (!start_time) return socket_error("cannot ask when a process began");
  return *start_time;
}

}  // namespace

Result<ProcessName> own_process_name() {
  SK_ASSIGN_OR_RETURN(const uint64_t start_time, start_time_of(getpid()));
  return ProcessName{.space = start_time == 0 ? 0 : own_process_space(),
                     .start_time = start_time,
                     .pid = getpid()};
}

bool same_process(const ProcessName& one, const ProcessName& other) {
  return one.space != 0 && one.space == other.space && one.pid == other.pid;
}

Result<Seen> open_pidfd(const ProcessName& process, Fd& fd) {
  if (process.space == 0 || process.space != own_process_space()) return Seen::kInvisible;
  Fd opened(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!opened) {
    if (errno == ESRCH) return Seen::kEnded;
    if (lacks_room(errno)) return socket_error(fmt::format("cannot watch process {}", process.pid));
    return Seen::kInvisible;
  }
  // Read after the descriptor was opened: if it is that process's, the descriptor is, too.
  SK_ASSIGN_OR_RETURN(const uint64_t start_time, start_time_of(process.pid));
  pollfd end = {.fd = opened.get(), .events = POLLIN, .revents = 0};
  if (poll(&end, 1, 0) > 0) return Seen::kEnded;
  if (start_time == 0) return Seen::kInvisible;
  if (start_time != process.start_time) return Seen::kEnded;
  fd = std::move(opened);
  return Seen::kAlive;
}

}  // namespace sk::shm
