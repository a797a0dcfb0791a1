#include "tools/sk_doctor/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "transport/local/fd.h"

namespace sk::doctor {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kFarewellNs = 3'000 * kMs;  // For what was told to end, and has ranks to end.
constexpr size_t kOutputBytesMax = 64 << 20;

struct Stream {
  local::Fd fd;
  std::string* text;
};

// Reads what comes until both are closed or the time is up; true: both are.
bool read_all(std::vector<Stream>& streams, int64_t deadline_ns) {
  for (;;) {
    std::vector<pollfd> polls;
    for (const Stream& each : streams)
      if (each.fd.open()) polls.push_back({each.fd.get(), POLLIN, 0});
    if (polls.empty()) return true;
    const int64_t left_ns = deadline_ns - clock_ns();
    if (left_ns <= 0) return false;
    if (poll(polls.data(), polls.size(), int(std::min<int64_t>(left_ns / kMs + 1, 1000))) <= 0)
      continue;
    for (Stream& each : streams) {
      const auto ready = std::find_if(polls.begin(), polls.end(), [&](const pollfd& poll) {
        return poll.fd == each.fd.get() && poll.revents != 0;
      });
      if (ready == polls.end()) continue;
      char chunk[65536];
      const ssize_t got = read(each.fd.get(), chunk, sizeof(chunk));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        each.fd.reset();
      } else if (each.text->size() < kOutputBytesMax) {
        each.text->append(chunk, size_t(got));
      }
    }
  }
}

// The wait status once the process has ended; -1: it has not, by then.
int reap(pid_t pid, int64_t deadline_ns) {
  for (;;) {
    int status = 0;
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid) return status;
    if (got < 0 && errno != EINTR) return 0;
    if (clock_ns() > deadline_ns) return -1;
    usleep(1000);
  }
}

std::string failure_of(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

int64_t clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Outcome in_child(const std::function<int()>& work, int64_t timeout_ns) {
  Outcome outcome;
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) != 0) {
    outcome.failure = fmt::format("cannot be started, no pipe: {}", std::strerror(errno));
    outcome.not_started = true;
    return outcome;
  }
  std::vector<Stream> streams;
  streams.push_back({local::Fd(out[0]), &outcome.out});
  local::Fd out_end(out[1]);
  if (pipe2(err, O_CLOEXEC) != 0) {
    outcome.failure = fmt::format("cannot be started, no pipe: {}", std::strerror(errno));
    outcome.not_started = true;
    return outcome;
  }
  streams.push_back({local::Fd(err[0]), &outcome.err});
  local::Fd err_end(err[1]);
  const int64_t deadline_ns = clock_ns() + timeout_ns;
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) {
    outcome.failure = fmt::format("cannot be started: {}", std::strerror(errno));
    outcome.not_started = true;
    return outcome;
  }
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(out_end.get(), 1) < 0 || dup2(err_end.get(), 2) < 0) _exit(125);
    _exit(work());
  }
  setpgid(pid, pid);
  out_end.reset();
  err_end.reset();
  bool late = !read_all(streams, deadline_ns);
  int status = late ? -1 : reap(pid, deadline_ns);
  if (status == -1) {
    late = true;
    kill(pid, SIGTERM);
    if (reap(pid, clock_ns() + kFarewellNs) == -1) {
      kill(-pid, SIGKILL);
      (void)reap(pid, INT64_MAX);
    }
    (void)read_all(streams, clock_ns() + 100 * kMs);
  }
  outcome.failure =
      late ? fmt::format("not done after {} s", timeout_ns / 1'000'000'000) : failure_of(status);
  return outcome;
}

Outcome run_program(const std::vector<std::string>& argv, int64_t timeout_ns) {
  return in_child(
      [&] {
        std::vector<char*> words;
        words.reserve(argv.size() + 1);
        for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        execvp(words[0], words.data());
        fmt::print(stderr, "{}: {}\n", argv[0], std::strerror(errno));
        return 127;
      },
      timeout_ns);
}

}  // namespace sk::doctor
