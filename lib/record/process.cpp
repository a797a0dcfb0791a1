#include "lib/record/process.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/fork_lock.h"
#include "lib/base/process_name.h"
#include "lib/record/ended.h"

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;  // NOLINT

namespace sk::record {
namespace {

constexpr uint64_t kFileBytesMax = kHeadBytes + kAreasMax * kAreaBytes;

// Nothing here has a destructor: calls may come while the process exits.
struct Own {
  std::byte* base = nullptr;  // The file, mapped for as many areas as it may ever have.
  pid_t pid = 0;
  uint32_t standing = 0;  // Areas that somebody has.
  bool watches_exit = false;
  bool swept = false;  // Once: a job's start is when what has ended is looked at.
  char path[256] = {};
  char folder[256] = {};
};
constinit Own own;

void forget_parents() { own = {.watches_exit = own.watches_exit, .swept = own.swept}; }
ForkLock lock(forget_parents);

ProcessHead& head() { return *reinterpret_cast<ProcessHead*>(own.base); }
Area& area_at(uint32_t index) {
  return *reinterpret_cast<Area*>(own.base + kHeadBytes + index * kAreaBytes);
}

int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void remove_own() {
  unlink(own.path);
  rmdir(own.folder);  // Where it was the last.
  // At an exit another thread may still be inside a call.
  if (own.standing == 0) munmap(own.base, kFileBytesMax);
  own = {.watches_exit = own.watches_exit, .swept = own.swept};
}

// Called at the exit of the process with its status, and with 0 where the library is unloaded:
// glibc hands to functions of __cxa_atexit() what it hands to those of on_exit(), and takes them
// along with the library, as it does not do there.
void on_end(void*, int status) {
  const std::lock_guard guard(lock);
  if (own.base == nullptr || own.pid != getpid()) return;
  if (status == 0) return remove_own();
  note_own_end(head(), End::kExited, status);
  own = {.watches_exit = true, .swept = own.swept};
}

void watch_exit() {
  if (own.watches_exit) return;
  using Handler = void (*)(void*);
  // NOLINTNEXTLINE(bugprone-casting-through-void): see on_end().
  auto* const handler = reinterpret_cast<Handler>(reinterpret_cast<void*>(&on_end));
  own.watches_exit = abi::__cxa_atexit(handler, nullptr, static_cast<void*>(&__dso_handle)) == 0;
}

// The kernel kills who writes a file beyond this limit.
bool may_have(uint64_t bytes) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= bytes;
}

// Takes the memory now: a store into a page for which there is none would end the process.
Status grow(int fd, uint64_t bytes) {
  if (!may_have(bytes))
    return error(SK_ERR_OUT_OF_RANGE, "the limit of file sizes (ulimit -f) is below {} bytes",
                 bytes);
  int cause = EINTR;
  while (cause == EINTR) cause = posix_fallocate(fd, 0, off_t(bytes));
  errno = cause;
  return cause == 0 ? Status() : system_error("no memory for the flight record");
}

void copy(const std::string& text, char* to, size_t room) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

std::string program_name() {
  char line[128] = {};
  const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t got = read(fd, line, sizeof(line) - 1);
  close(fd);
  std::string text(line, got > 0 ? size_t(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Status fill(int fd, uint64_t space, uint64_t start_time) {
  SK_RETURN_IF_ERROR(grow(fd, kHeadBytes));
  void* const base = mmap(nullptr, kFileBytesMax, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return system_error("cannot map the flight record");
  own.base = static_cast<std::byte*>(base);
  own.pid = getpid();
  ProcessHead& first = head();
  first.version = kVersion;
  first.space = space;
  first.start_time = start_time;
  first.pid = own.pid;
  first.began_ns = clock_ns(CLOCK_MONOTONIC);
  first.began_wall_ns = clock_ns(CLOCK_REALTIME);
  utsname names = {};
  uname(&names);
  copy(names.nodename, first.host, sizeof(first.host));
  copy(program_name(), first.program, sizeof(first.program));
  std::atomic_ref(first.magic).store(kMagic, std::memory_order_release);
  return {};
}

Status make_in(const std::string& folder, bool must_be_memory) {
  SK_RETURN_IF_ERROR(make_folder(folder, must_be_memory));
  const uint64_t space = own_process_space();
  const uint64_t start_time = process_start_time(getpid()).value_or(0);
  const std::string path = folder + "/" + file_name(space, getpid(), start_time);
  if (path.size() >= sizeof(own.path)) {
    return error(SK_ERR_OUT_OF_RANGE, "{} is too long: {} bytes, {} are allowed", path, path.size(),
                 sizeof(own.path) - 1);
  }
  // One of this name was this process's before it became another program.
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error("open " + path);
  Status filled = fill(fd, space, start_time);
  close(fd);
  if (!filled.ok()) {
    unlink(path.c_str());
    return filled;
  }
  copy(path, own.path, sizeof(own.path));
  copy(folder, own.folder, sizeof(own.folder));
  watch_exit();
  return {};
}

Status make(const std::vector<std::string>& places, bool must_be_memory) {
  std::string why;
  for (const std::string& folder : places) {
    Status made = make_in(folder, must_be_memory);
    // Another's rmdir() may come between folder and file.
    if (!made.ok()) made = make_in(folder, must_be_memory);
    if (made.ok()) return {};
    why += (why.empty() ? "" : "; ") + made.message();
  }
  return Status(SK_ERR_UNSUPPORTED, why);
}

// By its name: for a descriptor that is kept a process that ends all it has would take another's.
Status add_area() {
  const uint32_t count = head().areas.load(std::memory_order_relaxed);
  if (count == kAreasMax)
    return error(SK_ERR_OUT_OF_RANGE, "{} communicators are recorded already", kAreasMax);
  const int fd = open(own.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return system_error(std::string("open ") + own.path);
  Status grown = grow(fd, kHeadBytes + (count + 1) * kAreaBytes);
  close(fd);
  SK_RETURN_IF_ERROR(std::move(grown));
  head().areas.store(count + 1, std::memory_order_release);
  return {};
}

Area* given(Area& area) {
  const uint32_t serial = area.serial.load(std::memory_order_relaxed);
  area.stage.store(uint32_t(Stage::kFree), std::memory_order_relaxed);
  // What a reader finds half cleared has no stage.
  std::memset(reinterpret_cast<std::byte*>(&area) + offsetof(Area, rank), 0,
              sizeof(Area) - offsetof(Area, rank));
  area.serial.store(serial + 1, std::memory_order_relaxed);
  area.began_ns.store(clock_ns(CLOCK_MONOTONIC), std::memory_order_relaxed);
  area.stage.store(uint32_t(Stage::kMeeting), std::memory_order_release);
  ++own.standing;
  return &area;
}

// The one that was freed first, of those that went well before others.
Area* freed_area(bool also_failed) {
  Area* oldest = nullptr;
  for (uint32_t i = 0; i < head().areas.load(std::memory_order_relaxed); ++i) {
    Area& area = area_at(i);
    if (Stage(area.stage.load(std::memory_order_relaxed)) != Stage::kFreed) continue;
    if (!also_failed && area.over_code.load(std::memory_order_relaxed) != 0) continue;
    if (oldest == nullptr || area.over_ns.load(std::memory_order_relaxed) <
                                 oldest->over_ns.load(std::memory_order_relaxed)) {
      oldest = &area;
    }
  }
  return oldest;
}

constexpr uint32_t kFailedKept = 4;

uint32_t failed_areas() {
  uint32_t count = 0;
  for (uint32_t i = 0; i < head().areas.load(std::memory_order_relaxed); ++i) {
    const Area& area = area_at(i);
    count += Stage(area.stage.load(std::memory_order_relaxed)) == Stage::kFreed &&
             area.over_code.load(std::memory_order_relaxed) != 0;
  }
  return count;
}

// Not with the lock, for which forks wait.
void sweep_once(const std::vector<std::string>& places, int64_t keep_s) {
  {
    const std::lock_guard guard(lock);
    if (std::exchange(own.swept, true)) return;
  }
  for (const std::string& folder : places) sweep(folder, keep_s);
}

}  // namespace

Result<Area*> take_area(const Settings& settings, const EnvLookup& env, bool tidies) {
  // Before the lock: `env` may have one of its own, and forks take both in another order.
  const std::vector<std::string> places = folders(settings, env);
  if (tidies) sweep_once(places, settings.keep_s);
  const std::lock_guard guard(lock);
  if (own.base != nullptr && own.pid != getpid())
    own = {.watches_exit = own.watches_exit, .swept = own.swept};
  if (own.base == nullptr) SK_RETURN_IF_ERROR(make(places, settings.folder.empty()));
  if (Area* area = freed_area(/*also_failed=*/failed_areas() > kFailedKept)) return given(*area);
  SK_RETURN_IF_ERROR(add_area());
  return given(area_at(head().areas.load(std::memory_order_relaxed) - 1));
}

void give_back(Area* area) {
  const std::lock_guard guard(lock);
  if (own.base == nullptr || own.pid != getpid()) return;
  if (area->over_code.load(std::memory_order_relaxed) == 0)
    area->over_ns.store(clock_ns(CLOCK_MONOTONIC), std::memory_order_relaxed);
  area->stage.store(uint32_t(Stage::kFreed), std::memory_order_release);
  // What is left has nothing to say, unless one of them had failed.
  if (--own.standing == 0 && failed_areas() == 0) remove_own();
}

}  // namespace sk::record
