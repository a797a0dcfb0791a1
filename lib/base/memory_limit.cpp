#include "lib/base/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "lib/base/control_group.h"

namespace sk {
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

// What one version of control groups calls its figures.
struct Files {
  const char* limit;
  const char* used;
};
constexpr Files kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr Files kVersion2 = {"memory.max", "memory.current"};

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

MemoryRoom memory_room(const std::string& root) {
  MemoryRoom room;
  if (const auto kib = field(root + "/proc/meminfo", "MemAvailable:")) room.machine = *kib * 1024;
  for_each_control_group(root, {"memory", "/sys/fs/cgroup/memory"},
                         [&](const std::string& folder, bool is_v1) {
                           const Files& files = is_v1 ? kVersion1 : kVersion2;
                           const uint64_t left = group_available(root + folder, files);
                           if (left >= room.group) return;
                           room.group = left;
                           room.group_limit = fmt::format("{}/{}", folder, files.limit);
                         });
  return room;
}

uint64_t memory_available(const std::string& root) {
  const MemoryRoom room = memory_room(root);
  return std::min(room.machine, room.group);
}

}  // namespace sk
