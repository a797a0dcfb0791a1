#include "lib/base/process_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sk {
namespace {

bool lacks_room(int cause) { return cause == EMFILE || cause == ENFILE || cause == ENOMEM; }

uint64_t space_in(const std::string& folder) {
  struct stat pids = {}, times = {};
  if (stat((folder + "/ns/pid").c_str(), &pids) != 0) return 0;
  if (stat((folder + "/ns/time").c_str(), &times) != 0) times.st_ino = 0;  // Linux before 5.6.
  return uint64_t(pids.st_ino) ^ (uint64_t(times.st_ino) << 32);
}

}  // namespace

// The twenty-second field. The second, the program's name, is in parentheses and may have any
// characters, these too.
std::optional<uint64_t> process_start_time(pid_t pid) {
  const int file = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && lacks_room(errno)) return std::nullopt;
  if (file < 0) return 0;
  char text[1024];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* at = strrchr(text, ')');
  for (int field = 2; field < 22 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? uint64_t{0} : uint64_t{strtoull(at + 1, nullptr, 10)};
}

uint64_t own_process_space() {
  char self[32] = {};
  if (readlink("/proc/self", self, sizeof(self) - 1) <= 0 || strtol(self, nullptr, 10) != getpid())
    return 0;
  return space_in("/proc/self");
}

uint64_t process_space_of(pid_t pid) { return space_in(fmt::format("/proc/{}", pid)); }

}  // namespace sk
