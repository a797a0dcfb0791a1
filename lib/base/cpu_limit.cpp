#include "lib/base/cpu_limit.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "lib/base/control_group.h"

namespace sk {
namespace {

constexpr ControlGroups kCpuGroups = {"cpu", "/sys/fs/cgroup/cpu"};

// "max" and -1 are no limits.
uint32_t limit_of(const std::string& folder, bool is_v1) {
  int64_t quota = 0, period = 0;
  if (is_v1) {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us"),
        period_file(folder + "/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return UINT32_MAX;
  } else {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return UINT32_MAX;
  }
  if (quota <= 0 || period <= 0) return UINT32_MAX;
  // A thread more than whole CPUs would be stopped for a part of every period, and others wait for
  // its tiles.
  return uint32_t(std::clamp<int64_t>(quota / period, 1, UINT32_MAX - 1));
}

}  // namespace

CpuLimit cpu_limit(const std::string& root) {
  CpuLimit limit;
  for_each_control_group(root, kCpuGroups, [&](const std::string& folder, bool is_v1) {
    const uint32_t cpus = limit_of(root + folder, is_v1);
    struct stat info;
    if (cpus >= limit.cpus || stat((root + folder).c_str(), &info) != 0) return;
    limit = {cpus, uint64_t(info.st_dev) << 48 ^ uint64_t(info.st_ino)};
  });
  return limit;
}

}  // namespace sk
