#include "tools/sk/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "lib/record/ended.h"
#include "tools/sk/guard.h"
#include "tools/sk/relay.h"
#include "transport/local/fd.h"

namespace sk::tools {
namespace {

constexpr int64_t kGraceNs = 2'000'000'000;       // From SIGTERM to SIGKILL.
constexpr int64_t kLeftoversNs = 10'000'000'000;  // For what ranks left behind to end by SIGKILL.
constexpr int kTimeoutStatus = 124;               // As timeout(1).

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

struct Rank {
  pid_t pid = -1;
  bool alive = false;
  local::Fd end = {};  // Readable once it has ended.
};

struct Failure {
  int rank;
  int status;  // As waitpid() gives it.
};

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with status {}", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return fmt::format("was killed by signal {} (SIG{})", WTERMSIG(status), name ? name : "?");
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

// To the ranks: what would end us, and is somebody's way to say something to a program. Batch
// systems announce the end of a job by any of these.
std::vector<int> passed_on() {
  std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) signals.push_back(signal);
  return signals;
}

void say(const std::string& sentence) {
  const std::string line = "sk run: " + sentence + "\n";
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

class Job {
 public:
  Job(const LaunchConfig& config, const JobEnvironment& environment)
      : config_(config), environment_(environment), ranks_(size_t(config.world_size)) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Result<int> run();

 private:
  Status take_signals();
  Status spawn(int rank);
  [[noreturn]] void become_rank(int rank, int out, int err, int start) const;
  Status watch();
  void on_signals();
  void reap();
  void reap_in_order(std::optional<Failure>& first);
  void end_all();
  void signal_all(int signal) const;
  bool anyone_alive() const;
  int poll_wait_ms() const;
  void kill_leftovers();
  void flush_output();

  const LaunchConfig& config_;
  const JobEnvironment& environment_;
  std::vector<Rank> ranks_;
  Guard guard_;
  Relay relay_;
  sigset_t old_mask_;
  int signal_fd_ = -1;
  local::Fd ends_;  // Ready in the order in which the ranks have ended.
  int asked_to_end_ = 0;
  int64_t deadline_ns_ = 0;  // 0: none.
  int64_t kill_at_ns_ = 0;   // 0: nobody has been told to end.
  bool timed_out_ = false;
  bool gave_up_leftovers_ = false;
  std::optional<Failure> failure_;
};

Job::~Job() {
  signal_all(SIGKILL);
  kill_leftovers();
  if (signal_fd_ >= 0) {
    close(signal_fd_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
}

// Read through a descriptor, signals need no handler and cannot come between two system calls.
Status Job::take_signals() {
  // Where our caller ignores it, we would inherit that and never hear of a rank's end.
  signal(SIGCHLD, SIG_DFL);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  for (const int signal : passed_on()) {
    // What is ignored (nohup; a shell's background jobs) stays so here and in the ranks. Blocked it
    // would come through the descriptor all the same.
    struct sigaction now;
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) {
      sigaddset(&mask, signal);
    }
  }
  if (sigprocmask(SIG_BLOCK, &mask, &old_mask_) != 0) return system_error("sigprocmask");
  signal_fd_ = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) return system_error("signalfd");
  ends_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!ends_.open()) return system_error("epoll_create1");
  // What a rank leaves behind becomes our child, whatever group or session it went to.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return system_error("prctl");
  return {};
}

Result<int> Job::run() {
  SK_RETURN_IF_ERROR(take_signals());
  SK_RETURN_IF_ERROR(guard_.start());
  if (config_.timeout_ns > 0) deadline_ns_ = now_ns() + config_.timeout_ns;
  for (int rank = 0; rank < config_.world_size; ++rank) SK_RETURN_IF_ERROR(spawn(rank));
  SK_RETURN_IF_ERROR(watch());
  kill_leftovers();
  flush_output();
  if (timed_out_) return kTimeoutStatus;
  return failure_ ? exit_code(failure_->status) : 0;
}

Status Job::spawn(int rank) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, start[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, start) != 0) {
    return system_error("socketpair");
  }
  if (config_.tag && (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)) {
    return system_error("pipe");
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error(fmt::format("cannot start rank {}: fork", rank));
  if (pid == 0) {
    // Ends with us, also when we are killed; and if we were before this line, at once.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    close(start[0]);
    become_rank(rank, out[1], err[1], start[1]);
  }
  setpgid(pid, pid);  // Here too, so that the group exists before anyone signals it.
  ranks_[size_t(rank)] = {pid, true, local::Fd(int(syscall(SYS_pidfd_open, pid, 0)))};
  epoll_event event = {.events = EPOLLIN, .data = {.u32 = uint32_t(rank)}};
  const int end = ranks_[size_t(rank)].end.get();
  if (end < 0 || epoll_ctl(ends_.get(), EPOLL_CTL_ADD, end, &event) != 0) {
    return system_error(fmt::format("cannot watch rank {}: pidfd_open", rank));
  }
  guard_.watch(pid);
  close(start[1]);
  (void)!send(start[0], "", 1, MSG_NOSIGNAL);  // It is watched: it may begin, and end.
  if (config_.tag) {
    close(out[1]);
    close(err[1]);
    relay_.add(out[0], STDOUT_FILENO, rank);
    relay_.add(err[0], STDERR_FILENO, rank);
  }
  int code = 0;
  const ssize_t got = read(start[0], &code, sizeof(code));
  close(start[0]);
  if (got != ssize_t(sizeof(code))) return {};  // The program runs: exec closed its end.
  return Status(code == ENOENT ? SK_ERR_INVALID_ARGUMENT : SK_ERR_SYSTEM,
                fmt::format("cannot run \"{}\": {}", config_.command[0],
                            std::generic_category().message(code)));
}

void Job::become_rank(int rank, int out, int err, int start) const {
  setpgid(0, 0);
  char go = 0;
  if (read(start, &go, 1) != 1) _exit(127);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  // Rank 0 reads our input, but not a terminal: from another process group that would stop it.
  if (rank != 0 || isatty(STDIN_FILENO)) {
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (null > STDERR_FILENO) close(null);
  }
  if (environment_.secret_fd() >= 0) fcntl(environment_.secret_fd(), F_SETFD, 0);
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  std::vector<std::string> lines = environment_.of_rank(rank);
  std::vector<char*> pointers;
  for (std::string& line : lines) pointers.push_back(line.data());
  pointers.push_back(nullptr);
  execvpe(config_.command[0], config_.command, pointers.data());
  const int code = errno;
  (void)!send(start, &code, sizeof(code), MSG_NOSIGNAL);
  _exit(127);
}

Status Job::watch() {
  while (anyone_alive()) {
    std::vector<pollfd> polls = {{signal_fd_, POLLIN, 0}};
    relay_.append_polls(polls);
    if (poll(polls.data(), polls.size(), poll_wait_ms()) < 0 && errno != EINTR) {
      return system_error("poll");
    }
    on_signals();
    relay_.pump();
    const int64_t now = now_ns();
    if (deadline_ns_ != 0 && now >= deadline_ns_ && !timed_out_) {
      timed_out_ = true;
      say(fmt::format("not done within {} s; the ranks were ended",
                      double(config_.timeout_ns) / 1e9));
      end_all();
    }
    if (kill_at_ns_ != 0 && now >= kill_at_ns_) {
      signal_all(SIGKILL);
      kill_at_ns_ = now + kGraceNs;
    }
  }
  return {};
}

int Job::poll_wait_ms() const {
  int64_t next_ns = INT64_MAX;
  if (kill_at_ns_ != 0) next_ns = kill_at_ns_;
  if (deadline_ns_ != 0 && !timed_out_) next_ns = std::min(next_ns, deadline_ns_);
  if (next_ns == INT64_MAX) return -1;  // Every end of a rank is a signal, so nothing is missed.
  return int(std::clamp<int64_t>((next_ns - now_ns()) / 1'000'000 + 1, 0, 60'000));
}

void Job::on_signals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == ssize_t(sizeof(info))) {
    if (info.ssi_signo == SIGCHLD) continue;
    const int signal = int(info.ssi_signo);
    if (asks_to_end(signal) && asked_to_end_++ > 0) {
      end_all();
    } else {
      signal_all(signal);
    }
  }
  reap();
}

// The signals of several ends may come as one, and waitpid() knows no order of them: while this
// process was busy or stopped, ranks may have fallen because another did.
void Job::reap_in_order(std::optional<Failure>& first) {
  std::vector<epoll_event> ended(ranks_.size());
  const int count = epoll_wait(ends_.get(), ended.data(), int(ended.size()), 0);
  for (int i = 0; i < count; ++i) {
    Rank& rank = ranks_[ended[size_t(i)].data.u32];
    int status = 0;
    // What it left in its group ends while its number is still its own.
    kill(-rank.pid, SIGKILL);
    guard_.forget(rank.pid);
    if (waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
    record::note_end(rank.pid, WIFSIGNALED(status) ? record::End::kSignaled : record::End::kExited,
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    rank.alive = false;
    rank.end.reset();
    if (status != 0 && !first) first = Failure{int(&rank - ranks_.data()), status};
  }
}

void Job::reap() {
  std::optional<Failure> first;
  while (true) {
    reap_in_order(first);
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.alive && rank.pid == info.si_pid;
    });
    // Left behind by a rank, or the guard; a rank has ended meanwhile, and has its turn.
    if (is_rank) continue;
    guard_.on_end(info.si_pid);
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
  if (!first || timed_out_ || (failure_ && !config_.keep_going)) return;
  if (!failure_) failure_ = first;
  const bool others = anyone_alive();
  const char* const of_others =
      config_.keep_going ? "; the other ranks go on" : "; the other ranks were ended";
  say(fmt::format("rank {} {}{}", first->rank, describe(first->status), others ? of_others : ""));
  if (others && !config_.keep_going) end_all();
}

void Job::end_all() {
  if (kill_at_ns_ != 0) return;
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // A stopped process would never see it.
  kill_at_ns_ = now_ns() + kGraceNs;
}

// To the groups of the ranks that live: a group whose leader is gone is left to kill_leftovers().
void Job::signal_all(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(-rank.pid, signal);
  }
}

bool Job::anyone_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
}

// Ends every child we still have; theirs become ours as they end. Bounded, for without /proc
// nothing tells which they are, and what waits in a driver may not end.
void Job::kill_leftovers() {
  if (gave_up_leftovers_) return;
  guard_.stop();
  const std::string path = fmt::format("/proc/self/task/{}/children", getpid());
  const int64_t give_up_ns = now_ns() + kLeftoversNs;
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  while (true) {
    std::ifstream children(path);
    for (pid_t pid; children >> pid;) kill(pid, SIGKILL);
    pid_t ended;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    const int64_t left_ns = give_up_ns - now_ns();
    if (left_ns <= 0) break;
    // Woken by the next end at once; a process that has become ours meanwhile is looked for soon.
    const timespec wait = {0, long(std::min<int64_t>(left_ns, 100'000'000))};
    sigtimedwait(&mask, nullptr, &wait);
  }
  gave_up_leftovers_ = true;
  say(fmt::format("processes that the ranks had started have not ended within {} s, and are left{}",
                  kLeftoversNs / 1'000'000'000,
                  access(path.c_str(), R_OK) == 0 ? "" : ": without /proc they cannot be found"));
}

// All who could write have ended, so the pipes have too. A signal gives up on a reader of our
// output that does not read; a second without news gives up on a pipe that somebody else holds.
void Job::flush_output() {
  signalfd_siginfo info;
  while (!relay_.done()) {
    std::vector<pollfd> polls = {{signal_fd_, POLLIN, 0}};
    relay_.append_polls(polls);
    const int ready = poll(polls.data(), polls.size(), 1000);
    if (ready == 0 && !relay_.has_pending()) relay_.finish();
    relay_.pump();
    while (read(signal_fd_, &info, sizeof(info)) == ssize_t(sizeof(info))) {
      if (asks_to_end(int(info.ssi_signo))) return;
    }
  }
}

}  // namespace

Result<int> launch(const LaunchConfig& config, const JobEnvironment& environment) {
  return Job(config, environment).run();
}

}  // namespace sk::tools
