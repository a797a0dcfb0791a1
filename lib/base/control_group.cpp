#include "lib/base/control_group.h"

#include <fstream>
#include <string_view>

namespace sk {
namespace {

bool has_name(std::string_view list, std::string_view name) {
  for (size_t end = 0; end != std::string_view::npos; list.remove_prefix(end + 1)) {
    end = list.find(',');
    if (list.substr(0, end) == name) return true;
    if (end == std::string_view::npos) break;
  }
  return false;
}

}  // namespace

void for_each_control_group(
    const std::string& root, const ControlGroups& groups,
    const std::function<void(const std::string& folder, bool is_v1)>& visit) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t name = line.find(':') + 1;  // A line is "number:controllers:/path".
    const size_t path_at = line.find(":/") + 1;
    if (path_at <= name) continue;
    const std::string controllers = line.substr(name, path_at - 1 - name);
    const bool is_v1 = !controllers.empty();
    if (is_v1 && !has_name(controllers, groups.controller)) continue;
    std::string path = line.substr(path_at);
    if (path == "/") path.clear();
    for (;;) {
      visit((is_v1 ? groups.mount_v1 : groups.mount_v2) + path, is_v1);
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
}

}  // namespace sk
