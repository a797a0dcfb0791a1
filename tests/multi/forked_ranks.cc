#include "tests/multi/forked_ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "transport/local/link.h"

namespace sk::testing_ops {
namespace {

constexpr int64_t kCount = 10'000;  // Enough for several forms of a collective.
constexpr int kPatienceMs = 60'000;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void set_variables(int rank, int count, Meets meets, const std::string& job, int port) {
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(count));
  set("SK_WORKERS", "1");
  if (meets == Meets::kHere) {
    set("LOCAL_RANK", std::to_string(rank));
    set("LOCAL_WORLD_SIZE", std::to_string(count));
    set("TORCHELASTIC_RUN_ID", job);
  } else {
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", std::to_string(port));
    set("SK_JOB_SECRET", "a secret of this test");
  }
}

}  // namespace

void ForkedRank::say(const std::string& line) const {
  const std::string text = line + "\n";
  if (write(out, text.data(), text.size()) < 0) _exit(2);
}

void ForkedRank::wait() const {
  char byte;
  if (read(in, &byte, 1) != 1) _exit(3);
}

ForkedRanks::ForkedRanks(int count, Meets meets,
                         const std::function<std::string(ForkedRank&)>& body, int64_t timeout_ms) {
  static std::atomic<int> jobs = 0;
  const std::string job = std::to_string(std::random_device{}()) + "." + std::to_string(getpid()) +
                          "." + std::to_string(++jobs);
  const auto port = local::hold_port(local::HeldFor::kAnyoneAsks);
  EXPECT_TRUE(port.ok()) << port.status().message();
  for (int rank = 0; port.ok() && rank < count; ++rank) {
    int out[2], in[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    const pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const Process& other : processes_) {
        close(other.out);
        close(other.in);
      }
      close(out[0]);
      close(in[1]);
      set_variables(rank, count, meets, job, port.value().port);
      ForkedRank self{.number = rank, .out = out[1], .in = in[0]};
      sk_comm_config config{};
      config.struct_size = sizeof config;
      config.timeout_ms = timeout_ms;
      sk_status status = sk_init(nullptr, &self.context);
      if (status == SK_OK) status = sk_comm_create(self.context, &config, &self.comm);
      self.say(status == SK_OK ? body(self) : failed(status));
      self.wait();
      _exit(0);
    }
    close(out[1]);
    close(in[0]);
    processes_.push_back({pid, out[0], in[1]});
  }
}

ForkedRanks::~ForkedRanks() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    kill(int(rank));
    close(processes_[rank].out);
    close(processes_[rank].in);
  }
}

std::string ForkedRanks::said(int rank) {
  std::string line;
  while (true) {
    pollfd one = {processes_[size_t(rank)].out, POLLIN, 0};
    if (poll(&one, 1, kPatienceMs) != 1) return "(nothing for a minute)";
    char byte;
    if (read(one.fd, &byte, 1) != 1 || byte == '\n') return line;
    line += byte;
  }
}

std::vector<std::string> ForkedRanks::all_said(const std::vector<int>& ranks) {
  std::vector<std::string> lines;
  for (const int rank : ranks) lines.push_back(said(rank));
  return lines;
}

void ForkedRanks::go_on(int rank) { EXPECT_EQ(write(processes_[size_t(rank)].in, "+", 1), 1); }

void ForkedRanks::kill(int rank) {
  pid_t& pid = processes_[size_t(rank)].pid;
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = 0;
}

std::string failed(sk_status status) {
  return std::string(sk_status_name(status)) + ": " + sk_last_error();
}

std::string who_is_there(const ForkedRank& self, sk_comm* comm) {
  sk_comm_info info{};
  info.struct_size = sizeof info;
  if (const sk_status status = sk_comm_query(comm, &info); status != SK_OK) return failed(status);
  std::vector<float> x(kCount, float(1 << self.number));
  const sk_status status = sk_allreduce(comm, x.data(), x.data(), kCount, SK_F32, SK_SUM, nullptr);
  if (status != SK_OK) return failed(status);
  for (const float each : x)
    if (each != x[0]) return "a sum is wrong";
  return "rank " + std::to_string(info.rank) + " of " + std::to_string(info.world_size) + ": " +
         std::to_string(int(x[0]));
}

std::string shrunk(const ForkedRank& self, sk_comm* comm, int64_t timeout_ms, sk_comm** out) {
  sk_comm* left = nullptr;
  const sk_status status = sk_comm_shrink(comm, timeout_ms, &left);
  if (status != SK_OK) return failed(status);
  std::string who = who_is_there(self, left);
  if (out != nullptr) {
    *out = left;
  } else if (sk_comm_free(left) != SK_OK) {
    return "it cannot be freed";
  }
  return who;
}

void pass_ms(int ms) { poll(nullptr, 0, ms); }

}  // namespace sk::testing_ops
