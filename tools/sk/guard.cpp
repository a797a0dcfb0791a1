#include "tools/sk/guard.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace sk::tools {
namespace {

// Reads group numbers, negative once they are over, until the other end is closed, which only the
// end of `sk run` does.
[[noreturn]] void stand_guard(int link) {
  setsid();  // Away from the terminal, whose Ctrl-C is not for us.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "sk run guard");
  // Our copies of the caller's output would keep its reader waiting for more.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
  std::vector<pid_t> groups;
  while (true) {
    pid_t group = 0;
    const ssize_t got = read(link, &group, sizeof(group));
    if (got < 0 && errno == EINTR) continue;
    if (got != ssize_t(sizeof(group))) break;
    if (group > 0) groups.push_back(group);
    if (group < 0) std::erase(groups, -group);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Status Guard::start() {
  int ends[2];
  // Not a pipe: a write to a guard that somebody killed would end us by SIGPIPE.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("socketpair");
  }
  pid_ = fork();
  if (pid_ < 0) return system_error("fork");
  if (pid_ == 0) {
    close(ends[1]);
    stand_guard(ends[0]);
  }
  close(ends[0]);
  link_ = ends[1];
  return {};
}

void Guard::watch(pid_t group) { (void)!send(link_, &group, sizeof(group), MSG_NOSIGNAL); }

void Guard::forget(pid_t group) { watch(-group); }

void Guard::stop() {
  if (pid_ > 0) kill(pid_, SIGKILL);  // Before the link closes, which it would take for our end.
  if (link_ >= 0) close(link_);
  pid_ = link_ = -1;
}

}  // namespace sk::tools
