// A descriptor as SK_JOB_SECRET_FD names it: "NUMBER:DEVICE:INODE". The variable outlives the
// descriptor in whatever closes its descriptors before it starts a program (Python's subprocess,
// torchrun); a number alone would then name whatever file of that program has it since.
#ifndef SK_TRANSPORT_BOOTSTRAP_SECRET_FD_H_
#define SK_TRANSPORT_BOOTSTRAP_SECRET_FD_H_

#include <string>

#include "lib/base/status.h"

namespace sk {

struct SecretFd {
  int number = -1;
  bool pipe = false;  // It gives its bytes once, to one process.
};

// The name of what is open as `fd`, for a process that will have it as `number`.
Result<std::string> name_secret_fd(int fd, int number);

// The sealed memory file or pipe of this user that `text` names. It is looked at and left as it is;
// what else has the number is nobody's secret.
Result<SecretFd> find_secret_fd(const std::string& text);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_SECRET_FD_H_
