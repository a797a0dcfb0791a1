// A running `sk run`, for tests that look at it from outside.
#ifndef SK_TESTS_MULTI_SK_RUN_JOB_H_
#define SK_TESTS_MULTI_SK_RUN_JOB_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace sk::testing_support {

inline constexpr auto kLong = std::chrono::seconds(60);

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

// A running `sk run`, its output read as it comes.
class Job {
 public:
  // `wrapper`: a program with its first arguments that starts `sk run`.
  explicit Job(std::vector<std::string> arguments, int input = -1,
               std::vector<std::string> wrapper = {}) {
    wrapper.insert(wrapper.end(), {SK_PROGRAM, "run"});
    arguments.insert(arguments.begin(), wrapper.begin(), wrapper.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int out[2], err[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      if (input >= 0) dup2(input, STDIN_FILENO);
      execvp(argv[0], argv.data());
      _exit(99);
    }
    close(out[1]);
    close(err[1]);
    fds_[0] = out[0];
    fds_[1] = err[0];
  }
  ~Job() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    for (const int fd : fds_) close(fd);
  }

  // Reads until `lines` lines have come on stdout, or everything when it is 0.
  void read_output(size_t lines = 0) {
    const auto give_up = std::chrono::steady_clock::now() + kLong;
    while ((lines == 0 || size_t(std::count(out.begin(), out.end(), '\n')) < lines) &&
           std::chrono::steady_clock::now() < give_up) {
      pollfd polls[2] = {{open_[0] ? fds_[0] : -1, POLLIN, 0},
                         {open_[1] ? fds_[1] : -1, POLLIN, 0}};
      if (!open_[0] && !open_[1]) return;
      poll(polls, 2, 1000);
      for (int i = 0; i < 2; ++i) {
        if (polls[i].revents == 0) continue;
        char chunk[4096];
        const ssize_t got = read(fds_[i], chunk, sizeof(chunk));
        if (got <= 0) open_[i] = false;
        if (got > 0) (i == 0 ? out : err).append(chunk, size_t(got));
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now(), give_up) << "output so far: " << out << err;
  }
  // The exit status after all output; -N for signal N.
  int finish() {
    read_output();
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

  std::string out, err;

 private:
  pid_t pid_ = -1;
  int fds_[2] = {-1, -1};
  bool open_[2] = {true, true};
};

inline std::vector<std::string> shell(const std::string& n, const std::string& script) {
  return {"-n", n, "sh", "-c", script};
}

// A number for `sleep` that no other process has, by which what a job leaves behind is found.
inline std::string unique_seconds() {
  static std::mt19937_64 random{static_cast<uint64_t>(getpid())};
  return std::to_string(100'000 + random() % 800'000) + "." + std::to_string(getpid());
}

inline bool runs(const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string line;
    std::getline(file, line);  // Fails, and does not throw, where the process has just ended.
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.find("sleep " + word) == 0) return true;
  }
  return false;
}

inline bool ends_soon(const std::string& word) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  while (runs(word)) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    sched_yield();
  }
  return true;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_MULTI_SK_RUN_JOB_H_
