#include "transport/shm/process_name.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "transport/shm/socket.h"

namespace sk::shm {
namespace {

bool lacks_room(int cause) { return cause == EMFILE || cause == ENFILE || cause == ENOMEM; }

// The twenty-second field; 0 where it cannot be read. The second, the program's name, is in
// parentheses and may have any characters, these too.
Result<uint64_t> start_time_of(pid_t pid) {
  const Fd file(open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && lacks_room(errno)) return socket_error("cannot ask when a process began");
  if (!file) return uint64_t{0};
  char text[1024];
  const ssize_t size = read(file.get(), text, sizeof(text) - 1);
  if (size <= 0) return uint64_t{0};
  text[size] = '\0';
  const char* at = strrchr(text, ')');
  for (int field = 2; field < 22 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? uint64_t{0} : uint64_t{strtoull(at + 1, nullptr, 10)};
}

// Within which PIDs name the same processes, and start times count from the same moment: a reader's
// time namespace shifts what /proc tells. 0 where /proc is another PID namespace's, whose numbers
// mean other processes, or is not there.
uint64_t own_space() {
  char self[32] = {};
  if (readlink("/proc/self", self, sizeof(self) - 1) <= 0 || strtol(self, nullptr, 10) != getpid())
    return 0;
  struct stat pids = {}, times = {};
  if (stat("/proc/self/ns/pid", &pids) != 0) return 0;
  if (stat("/proc/self/ns/time", &times) != 0) times.st_ino = 0;  // Linux before 5.6.
  return uint64_t(pids.st_ino) ^ (uint64_t(times.st_ino) << 32);
}

}  // namespace

Result<ProcessName> own_process_name() {
  SK_ASSIGN_OR_RETURN(const uint64_t start_time, start_time_of(getpid()));
  return ProcessName{
      .space = start_time == 0 ? 0 : own_space(), .start_time = start_time, .pid = getpid()};
}

bool same_process(const ProcessName& one, const ProcessName& other) {
  return one.space != 0 && one.space == other.space && one.pid == other.pid;
}

Result<Seen> open_pidfd(const ProcessName& process, Fd& fd) {
  if (process.space == 0 || process.space != own_space()) return Seen::kInvisible;
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
