// Another user of this machine: a piece of code in a process of the user nobody.
#ifndef SK_TESTS_SUPPORT_AS_NOBODY_H_
#define SK_TESTS_SUPPORT_AS_NOBODY_H_

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sk::testing_support {

inline constexpr uid_t kNobody = 65534;

inline bool can_be_nobody() { return geteuid() == 0; }

// Calls `body` in a new process as nobody, which ends with what that returns; its pid. It does not
// outlive this process.
template <typename Body>
pid_t start_as_nobody(const Body& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(100);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // Another user clears it.
  _exit(body());
}

// Its exit status, -1 when a signal ended it.
template <typename Body>
int run_as_nobody(const Body& body) {
  int status = 0;
  waitpid(start_as_nobody(body), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_AS_NOBODY_H_
