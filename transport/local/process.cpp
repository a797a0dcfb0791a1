#include "transport/local/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "transport/local/link.h"

namespace sk::local {
namespace {

constexpr int kFirstScratchFd = 100;  // Above every target of SpawnSpec::fds.

std::atomic<uint64_t> limit_before_raised{0};  // Of open descriptors; 0: it was not raised.

// Everything the child needs, made before the fork: after it only async-signal-safe calls run.
struct Child {
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<std::string> env;
  const char* cwd = nullptr;
  const SpawnSpec* spec = nullptr;
  int report_fd = -1;
  pid_t parent = 0;
};

std::vector<std::string> merged_environment(const std::vector<std::string>& over) {
  std::map<std::string, std::string> lines;
  const auto put = [&](const std::string& line) { lines[line.substr(0, line.find('='))] = line; };
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) put(*line);
  for (const std::string& line : over) put(line);
  std::vector<std::string> out;
  for (auto& [name, line] : lines) out.push_back(line);
  return out;
}

// In the child. Returns the errno of what failed.
int become(const Child& child) {
  setsid();
  if (child.spec->dies_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    if (getppid() != child.parent) return ESRCH;  // The parent died before the prctl.
  }
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Else as this process was given it: programs that use select() may not have more.
  const uint64_t descriptors =
      child.spec->descriptors > 0 ? child.spec->descriptors : limit_before_raised.load();
  if (descriptors > 0) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno;
    limit.rlim_cur = descriptors;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno;
  }
  if (child.cwd != nullptr && chdir(child.cwd) != 0) return errno;
  // Out of the way first, so that no target overwrites a source that is still needed.
  int scratch[16];
  const size_t count = child.spec->fds.size();
  if (count > 16) return EINVAL;
  for (size_t i = 0; i < count; ++i) {
    scratch[i] = fcntl(child.spec->fds[i].first, F_DUPFD_CLOEXEC, kFirstScratchFd);
    // EINVAL: this process may not have as many descriptors as that.
    if (scratch[i] < 0) return errno == EINVAL ? EMFILE : errno;
  }
  const int report = fcntl(child.report_fd, F_DUPFD_CLOEXEC, kFirstScratchFd);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0) return errno;
  int top = 2;
  for (size_t i = 0; i < count; ++i) {
    if (dup2(scratch[i], child.spec->fds[i].second) < 0) return errno;
    top = child.spec->fds[i].second > top ? child.spec->fds[i].second : top;
  }
  close_range(static_cast<unsigned>(top) + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  execvpe(child.argv[0], child.argv.data(), child.envp.data());
  const int why = errno;
  ssize_t ignored = write(report, &why, sizeof why);
  (void)ignored;
  return 0;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur == limit.rlim_max) return limit_before_raised;
  const uint64_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit_before_raised = before;
  return before;
}

Result<Process> Process::spawn(const SpawnSpec& spec) {
  std::vector<std::string> argv = spec.argv;
  Child child;
  child.argv = pointers(argv);
  child.env = merged_environment(spec.env);
  child.envp = pointers(child.env);
  child.cwd = spec.cwd.empty() ? nullptr : spec.cwd.c_str();
  child.spec = &spec;
  child.parent = getpid();
  SK_ASSIGN_OR_RETURN(auto report, pipe_pair());
  child.report_fd = report.second.get();
  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    const int why = become(child);
    if (why != 0 && write(child.report_fd, &why, sizeof why) < 0) _exit(126);
    _exit(127);
  }
  Process process;
  process.pid_ = pid;
  process.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int pidfd_errno = errno;
  report.second.reset();
  // Ends with the exec, which closes the pipe, or with the errno of what failed.
  int why = 0;
  ssize_t n = -1;
  do n = read(report.first.get(), &why, sizeof why);
  while (n < 0 && errno == EINTR);
  if (n == sizeof why) {
    waitpid(pid, nullptr, 0);
    return error(SK_ERR_SYSTEM, "{}{}: {}", spec.argv[0], spec.cwd.empty() ? "" : " in " + spec.cwd,
                 strerror(why));
  }
  if (!process.pidfd_.open()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    errno = pidfd_errno;
    return system_error("pidfd_open");
  }
  return process;
}

Result<Process> Process::adopt(pid_t pid) {
  Process process;
  process.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_.open()) return system_error("pidfd_open");
  process.pid_ = pid;
  return process;
}

void Process::signal_group(int signal_number) const {
  if (pid_ <= 0) return;
  // A process that was adopted may not lead its group yet.
  if (kill(-pid_, signal_number) != 0 && errno == ESRCH) kill(pid_, signal_number);
}

std::optional<ExitStatus> Process::try_reap() {
  if (pid_ <= 0) return std::nullopt;
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != ECHILD || !wait_for(pidfd_.get(), false, 0)) return std::nullopt;
    pid_ = -1;
    return ExitStatus{};
  }
  if (info.si_pid == 0) return std::nullopt;
  signal_group(SIGKILL);  // Before the reaping, while the group's number is surely still its own.
  waitid(P_PID, id, &info, WEXITED | WNOHANG);
  pid_ = -1;
  return ExitStatus{info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace sk::local
