#include "tools/sk/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace sk::tools {
namespace {

// Reads group numbers until the writing end is closed, which only the end of `sk run` does.
[[noreturn]] void stand_guard(int pipe) {
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
    const ssize_t got = read(pipe, &group, sizeof(group));
    if (got < 0 && errno == EINTR) continue;
    if (got != ssize_t(sizeof(group))) break;
    groups.push_back(group);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Status Guard::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  pid_ = fork();
  if (pid_ < 0) return system_error("fork");
  if (pid_ == 0) {
    close(ends[1]);
    stand_guard(ends[0]);
  }
  close(ends[0]);
  pipe_ = ends[1];
  return {};
}

void Guard::watch(pid_t group) { (void)!write(pipe_, &group, sizeof(group)); }

void Guard::stop() {
  if (pid_ > 0) kill(pid_, SIGKILL);  // Before the pipe closes, which it would take for our end.
  if (pipe_ >= 0) close(pipe_);
  pid_ = pipe_ = -1;
}

}  // namespace sk::tools
