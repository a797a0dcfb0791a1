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

namespace sk::shm {
namespace {

// The twenty-second field; 0 where it cannot be read. The second, the program's name, is in
// parentheses and may have any characters, these too.
uint64_t start_time_of(pid_t pid) {
  const Fd file(open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  char text[1024];
  const ssize_t size = read(file.get(), text, sizeof(text) - 1);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* at = strrchr(text, ')');
  for (int field = 2; field < 22 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

uint64_t own_space() {
  struct stat info = {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ProcessName own_process_name() {
  ProcessName own = {.space = own_space(), .start_time = start_time_of(getpid()), .pid = getpid()};
  if (own.start_time == 0) own.space = 0;
  return own;
}

Result<Seen> open_pidfd(const ProcessName& process, Fd& fd) {
  if (process.space == 0 || process.space != own_space()) return Seen::kInvisible;
  Fd opened(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!opened) {
    if (errno == ESRCH) return Seen::kEnded;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
      return system_error(fmt::format("cannot watch process {}", process.pid));
    return Seen::kInvisible;
  }
  // Read after the descriptor was opened: if it is that process's, the descriptor is, too.
  const uint64_t start_time = start_time_of(process.pid);
  pollfd end = {.fd = opened.get(), .events = POLLIN, .revents = 0};
  if (poll(&end, 1, 0) > 0) return Seen::kEnded;
  if (start_time == 0) return Seen::kInvisible;
  if (start_time != process.start_time) return Seen::kEnded;
  fd = std::move(opened);
  return Seen::kAlive;
}

}  // namespace sk::shm
