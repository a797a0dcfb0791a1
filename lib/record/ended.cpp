#include "lib/record/ended.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "lib/base/process_name.h"

namespace sk::record {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// What nobody here can see or read has an end that nobody here can see.
constexpr int64_t kUntoldKeepS = 30 * 86400;

int64_t wall_ns() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return int64_t(time.tv_sec) * kSecond + time.tv_nsec;
}

// A file of records that this process may change; -1: it is none, or nobody may.
int open_record(const std::string& path, ProcessHead& head) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat what = {};
  const bool is = fd >= 0 && fstat(fd, &what) == 0 && S_ISREG(what.st_mode) &&
                  what.st_uid == geteuid() &&
                  pread(fd, static_cast<void*>(&head), sizeof(head), 0) == ssize_t(sizeof(head)) &&
                  head.magic == kMagic && head.version == kVersion;
  if (is) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

End end_of(const ProcessHead& head) { return End(head.end.load(std::memory_order_relaxed)); }

// Nobody else writes there: the process has ended. `end` is stored last.
void write_end(int fd, End how, int code) {
  const int32_t number = code;
  const int64_t now = wall_ns();
  const auto word = uint32_t(how);
  (void)!pwrite(fd, &number, sizeof(number), offsetof(ProcessHead, end_code));
  (void)!pwrite(fd, &now, sizeof(now), offsetof(ProcessHead, end_wall_ns));
  (void)!pwrite(fd, &word, sizeof(word), offsetof(ProcessHead, end));
}

// Of the machine itself; /proc shows there what all others have (PROC_PID_INIT_INO).
constexpr uint32_t kFirstPidNamespace = 0xEFFFFFFC;

// Whether it may have a record of this user's in another PID namespace, where NSpid has more than
// one number. A zombie has no namespaces any more.
bool may_be_elsewhere(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:\tZ")) return false;
    if (line.starts_with("Uid:") && std::strtoull(line.c_str() + 4, nullptr, 10) != getuid())
      return false;
    if (line.starts_with("NSpid:")) return std::count(line.begin(), line.end(), '\t') > 1;
  }
  return false;  // It has ended meanwhile.
}

// The number by which a process of another PID namespace is known in its own: the last of NSpid.
int64_t innermost_pid(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    const size_t last = line.find_last_of(" \t");
    return last == std::string::npos ? 0 : std::strtoll(line.c_str() + last, nullptr, 10);
  }
  return 0;
}

// The kernel gives the number of a PID namespace that is gone to the next one, and PIDs there begin
// anew: the start tells, where both have one clock.
bool is_same(const FileName& name, uint64_t own_space, pid_t pid) {
  const bool one_clock = own_space != 0 && own_space >> 32 == name.space >> 32;
  return !one_clock || process_start_time(pid).value_or(0) == name.start_time;
}

struct Dead {
  std::string path;
  int64_t since_ns;
};

}  // namespace

void note_own_end(ProcessHead& head, End how, int code) {
  head.end_code.store(code, std::memory_order_relaxed);
  head.end_wall_ns.store(wall_ns(), std::memory_order_relaxed);
  head.end.store(uint32_t(how), std::memory_order_release);
}

void Processes::look() {
  looked_ = true;
  DIR* const all = opendir("/proc");
  if (all == nullptr) return;
  sees_all_ = uint32_t(own_space_) == kFirstPidNamespace;
  while (const dirent* entry = readdir(all)) {
    const pid_t pid = pid_t(std::strtol(entry->d_name, nullptr, 10));
    const uint64_t space = pid > 0 ? process_space_of(pid) : 0;
    if (pid > 0 && space == 0 && may_be_elsewhere(entry->d_name)) sees_all_ = false;
    if (space != 0 && space != own_space_)
      others_[space].emplace(innermost_pid(entry->d_name), pid);
  }
  closedir(all);
}

SeenProcess Processes::find_elsewhere(const FileName& name) {
  if (!looked_) look();
  const auto space = others_.find(name.space);
  if (space == others_.end()) return {sees_all_ ? Seen::kEnded : Seen::kInvisible, 0};
  const auto [first, last] = space->second.equal_range(name.pid);
  for (auto it = first; it != last; ++it)
    if (is_same(name, own_space_, it->second)) return {Seen::kAlive, it->second};
  return {Seen::kEnded, 0};  // Its space is seen, and other processes of it.
}

SeenProcess Processes::find(const FileName& name) {
  if (name.space == 0 || name.pid > INT32_MAX) return {};
  if (name.space != own_space_) return find_elsewhere(name);
  const auto pid = pid_t(name.pid);
  if (kill(pid, 0) != 0 && errno == ESRCH) return {Seen::kEnded, 0};
  const uint64_t start_time = process_start_time(pid).value_or(0);
  if (start_time == 0) return kill(pid, 0) != 0 ? SeenProcess{Seen::kEnded, 0} : SeenProcess{};
  if (start_time != name.start_time) return {Seen::kEnded, 0};
  return {Seen::kAlive, pid};
}

void note_end(pid_t pid, End how, int code) {
  Result<Settings> settings = read_settings(process_env);
  if (!settings.ok()) return;
  const uint64_t space = own_process_space();
  if (space == 0) return;
  // Of an earlier process of this number the record began before whoever started this one.
  const uint64_t own_start = process_start_time(getpid()).value_or(0);
  for (const std::string& folder : folders(*settings, process_env)) {
    if (!check_folder(folder).ok()) continue;
    uint64_t latest = own_start;
    const std::vector<std::string> files = list_records(folder);
    for (const std::string& file : files) {
      const auto name = parse_file_name(file);
      if (name && name->pid == pid && name->space == space)
        latest = std::max(latest, name->start_time);
    }
    for (const std::string& file : files) {
      const auto name = parse_file_name(file);
      if (!name || name->pid != pid || name->space != space || name->start_time != latest) continue;
      const std::string path = fmt::format("{}/{}", folder, file);
      ProcessHead head;
      const int fd = open_record(path, head);
      if (fd < 0) continue;
      if (end_of(head) == End::kUnknown || end_of(head) == End::kGone) write_end(fd, how, code);
      close(fd);
      if (how == End::kExited && code == 0) unlink(path.c_str());
    }
    rmdir(folder.c_str());  // Where it was the last.
  }
}

void sweep(const std::string& folder, int64_t keep_s) {
  if (!check_folder(folder).ok()) return;
  const int64_t now = wall_ns();
  Processes processes;
  std::vector<Dead> dead;
  for (const std::string& file : list_records(folder)) {
    const auto name = parse_file_name(file);
    if (!name) continue;
    const SeenProcess process = processes.find(*name);
    if (process.seen == Seen::kAlive) continue;
    const std::string path = fmt::format("{}/{}", folder, file);
    ProcessHead head;
    const int fd = open_record(path, head);
    struct stat what = {};
    const bool told = fd >= 0 && process.seen == Seen::kEnded;
    const bool aged = !told && lstat(path.c_str(), &what) == 0 && S_ISREG(what.st_mode) &&
                      now / kSecond - what.st_mtime > kUntoldKeepS;
    if (aged) unlink(path.c_str());
    if (fd < 0) continue;
    if (told) {
      int64_t since = head.end_wall_ns.load(std::memory_order_relaxed);
      if (end_of(head) == End::kUnknown) {
        write_end(fd, End::kGone, 0);
        since = now;
      }
      dead.push_back({path, since});
    }
    close(fd);
  }
  std::sort(dead.begin(), dead.end(),
            [](const Dead& a, const Dead& b) { return a.since_ns < b.since_ns; });
  for (size_t i = 0; i < dead.size(); ++i) {
    const bool beyond = dead.size() - i > kDeadMax;
    if (beyond || now - dead[i].since_ns > keep_s * kSecond) unlink(dead[i].path.c_str());
  }
}

}  // namespace sk::record
