// Whether systemd-logind removes a user's memory files by name, among them flight records.
#ifndef SK_TOOLS_SK_DOCTOR_LOGIND_H_
#define SK_TOOLS_SK_DOCTOR_LOGIND_H_

#include <sys/types.h>

#include <string>

namespace sk::doctor {

// Below `root`, which is "" but in tests. logind does so when the user's last session ends, not of
// system users and not of those who linger.
bool logind_removes_files(const std::string& root, uid_t user, const std::string& name);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_LOGIND_H_
