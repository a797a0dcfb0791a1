#include "lib/base/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>

#include "lib/base/lasting.h"

namespace sk {
namespace {

struct Descriptors {
  uint64_t open = 0;
  uint64_t left = 0;  // Numbers below the soft limit that are free.
  rlimit limit = {};
};

// Looking takes one itself, which is not counted.
Result<Descriptors> look() {
  Descriptors all;
  if (getrlimit(RLIMIT_NOFILE, &all.limit) != 0) return system_error("getrlimit()");
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr && errno != EMFILE) return system_error("cannot look at /proc/self/fd");
  if (folder == nullptr) {
    all.open = all.limit.rlim_cur;
    return all;
  }
  uint64_t below = 0;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const uint64_t fd = std::strtoull(entry->d_name, nullptr, 10);
    if (fd == uint64_t(dirfd(folder))) continue;
    ++all.open;
    if (fd < all.limit.rlim_cur) ++below;
  }
  closedir(folder);
  all.left = all.limit.rlim_cur - below;
  return all;
}

std::string text_of(const Descriptors& all) {
  return fmt::format(
      "{} of at most {} descriptors are open (ulimit -n; the hard limit is {})", all.open,
      all.limit.rlim_cur,
      all.limit.rlim_max == RLIM_INFINITY ? "none" : std::to_string(all.limit.rlim_max));
}

// Two threads that raise the limit must not undo each other's.
std::mutex& raising() {
  static Lasting<std::mutex> mutex;
  return *mutex;
}

}  // namespace

std::string descriptors_text() {
  Result<Descriptors> all = look();
  return all.ok() ? text_of(*all) : all.status().message();
}

Status make_room_for_descriptors(uint64_t least, uint64_t wanted, const std::string& what) {
  const std::lock_guard lock(raising());
  Result<Descriptors> all = look();
  if (!all.ok()) return {};  // Whoever opens one will be told.
  if (all->left < wanted && all->limit.rlim_cur < all->limit.rlim_max) {
    rlimit raised = all->limit;
    raised.rlim_cur = std::min<rlim_t>(all->open + wanted, raised.rlim_max);
    if (raised.rlim_cur > all->limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
      all->left += raised.rlim_cur - all->limit.rlim_cur;
      all->limit = raised;
    }
  }
  if (all->left >= least) return {};
  return error(SK_ERR_NO_MEMORY, "{} takes {} descriptors more, and {}", what, least,
               text_of(*all));
}

}  // namespace sk
