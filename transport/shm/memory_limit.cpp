#include "transport/shm/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace sk::shm {
namespace {

// The number after `key` in a file of "key number" lines.
std::optional<uint64_t> field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    uint64_t value = 0;
    if (word == key && file >> value) return value;
    file.clear();
    file.ignore(1'000, '\n');
  }
  return std::nullopt;
}

// "max" is no number, so no limit.
std::optional<uint64_t> number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Where one version of control groups keeps its figures.
struct Files {
  const char* mount;
  const char* limit;
  const char* used;
};
constexpr Files kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                             "memory.usage_in_bytes"};
constexpr Files kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current"};

uint64_t group_available(const std::string& folder, const Files& files) {
  const auto limit = number(folder + "/" + files.limit);
  const auto used = number(folder + "/" + files.used);
  if (!limit || !used) return UINT64_MAX;
  const uint64_t cache = field(folder + "/memory.stat", "active_file").value_or(0) +
                         field(folder + "/memory.stat", "inactive_file").value_or(0);
  const uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

uint64_t memory_available(const std::string& root) {
  uint64_t available = UINT64_MAX;
  if (const auto kib = field(root + "/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t name = line.find(':') + 1;  // A line is "number:controllers:/path".
    const size_t path_at = line.find(":/") + 1;
    if (path_at <= name) continue;
    const std::string controllers = line.substr(name, path_at - 1 - name);
    if (!controllers.empty() && controllers != "memory") continue;
    const Files& files = controllers.empty() ? kVersion2 : kVersion1;
    std::string path = line.substr(path_at);
    if (path == "/") path.clear();
    // The limits of every ancestor hold too.
    for (;;) {
      const std::string folder = fmt::format("{}{}{}", root, files.mount, path);
      available = std::min(available, group_available(folder, files));
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return available;
}

}  // namespace sk::shm
