// The control groups that this process is in, whose limits hold beside the machine's.
#ifndef SK_LIB_BASE_CONTROL_GROUP_H_
#define SK_LIB_BASE_CONTROL_GROUP_H_

#include <functional>
#include <string>

namespace sk {

// Where the two versions of control groups keep one kind of limit: version 1 mounts each controller
// apart.
struct ControlGroups {
  const char* controller;  // As /proc/self/cgroup names it.
  const char* mount_v1;
  const char* mount_v2 = "/sys/fs/cgroup";
};

// Calls `visit` with the folder of this process's group and of each of its ancestors, whose limits
// hold too. `root` is "" but in tests; folders come without it.
void for_each_control_group(
    const std::string& root, const ControlGroups& groups,
    const std::function<void(const std::string& folder, bool is_v1)>& visit);

}  // namespace sk

#endif  // SK_LIB_BASE_CONTROL_GROUP_H_
