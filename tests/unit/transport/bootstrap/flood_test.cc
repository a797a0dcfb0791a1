// Strangers that come by the thousand: they keep no rank of the job from joining.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/as_nobody.h"
#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

using namespace sk::testing_support;

constexpr char kSecret[] = "a secret of this test alone";
constexpr int kFlood = 1500;  // More than rank 0 keeps.

Variables variables_of(int rank, int world_size, int port) {
  Variables variables = job_variables(rank, world_size, port);
  variables["SK_JOB_SECRET"] = kSecret;
  return variables;
}

void raise_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void close_at_once(int fd) {
  const linger none = {1, 0};  // A reset: the port is free again, for there are but so many.
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  close(fd);
}

class Flood : public testing::Test {
 protected:
  void SetUp() override {
    raise_limit();
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * kFlood) {
      GTEST_SKIP() << "this process may have " << limit.rlim_cur << " descriptors only";
    }
  }
};

MemberHello right_hello(int port, int rank, int world_size) {
  const auto config = env_config(variables_of(rank, world_size, port), kLong);
  const auto job = read_job_env(config.env, "");
  EXPECT_TRUE(job.ok());
  MemberHello hello;
  hello.rank = uint32_t(rank);
  hello.world_size = uint32_t(world_size);
  hello.has_secret = 1;
  hello.job = job.value().job;
  hello.name = job.value().name;
  EXPECT_TRUE(fill_random(hello.nonce).ok());
  hello.proof = hello_proof(kSecret, hello).value();
  return hello;
}

// All come while rank 0 cannot look, the rank of the job first: it is the oldest of them.
TEST_F(Flood, WhoHasTheSecretIsNotSentAwayForThoseWhoCameLater) {
  const HeldPort port;
  const pid_t hub = fork();
  ASSERT_GE(hub, 0);
  if (hub == 0) {
    const auto made = make_bootstrap(env_config(variables_of(0, 2, port.number()), kLong));
    _exit(made.ok() ? 0 : 1);
  }
  close(dial(port.number()));  // It listens.
  kill(hub, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(hub, &status, WUNTRACED), hub);
  ASSERT_TRUE(WIFSTOPPED(status));

  const MemberHello hello = right_hello(port.number(), 1, 2);
  const int rank = dial(port.number());
  ASSERT_EQ(send(rank, &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t(sizeof(hello)));
  std::vector<int> strangers;
  for (int i = 0; i < kFlood; ++i) strangers.push_back(dial(port.number()));
  kill(hub, SIGCONT);
  HubHello answer;
  EXPECT_EQ(recv(rank, &answer, sizeof(answer), MSG_WAITALL), ssize_t(sizeof(answer)));
  EXPECT_EQ(answer.verdict, Verdict::kJoined);

  for (const int fd : strangers) close_at_once(fd);
  close(rank);
  kill(hub, SIGKILL);
  waitpid(hub, nullptr, 0);
}

// Rank 0 of two in a process of its own, which ends with 0 where rank 1 came.
pid_t start_hub(int port, rlim_t descriptors) {
  const pid_t hub = fork();
  if (hub != 0) return hub;
  const rlimit limit = {descriptors, descriptors};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
  auto made = make_bootstrap(env_config(variables_of(0, 2, port), kLong));
  if (!made.ok()) fprintf(stderr, "rank 0: %s\n", made.status().message().c_str());
  _exit(made.ok() ? 0 : 1);
}

// What a stranger gets of a job's members who listens at the port before rank 0 does.
TEST_F(Flood, HellosThatWereOverheardElsewhereKeepNobodyOut) {
  const HeldPort port;
  const pid_t hub = start_hub(port.number(), /*descriptors=*/64);
  ASSERT_GE(hub, 0);
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    const int fd = dial(port.number());
    if (fd < 0) break;  // It has ended.
    strangers.push_back(fd);
    const MemberHello hello = right_hello(port.number(), 1, 2);
    EXPECT_EQ(send(strangers.back(), &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t(sizeof(hello)));
  }
  const auto made = make_bootstrap(env_config(variables_of(1, 2, port.number()), kLong));
  EXPECT_TRUE(made.ok()) << made.status().message();
  int status = 0;
  waitpid(hub, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (const int fd : strangers) close_at_once(fd);
}

// Opens connections as fast as it can, keeps many, and says nothing, nonsense, or too much.
[[noreturn]] void flood(int port) {
  alarm(120);
  std::deque<int> open;
  std::string words(1 << 20, 'x');
  words.replace(0, 8, "skboot03");
  for (int i = 0;; ++i) {
    const int fd = dial(port);
    if (fd < 0) continue;
    open.push_back(fd);
    const size_t bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? sizeof(MemberHello) : words.size();
    if (bytes > 0) (void)!send(fd, words.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (open.size() < size_t(kFlood)) continue;
    close_at_once(open.front());
    open.pop_front();
  }
}

TEST_F(Flood, RanksJoinWhileStrangersKeepComing) {
  const HeldPort port;
  std::vector<pid_t> strangers;
  for (int i = 0; i < 2; ++i) {
    if (can_be_nobody()) {
      strangers.push_back(start_as_nobody([&]() -> int { flood(port.number()); }));
    } else {
      strangers.push_back(fork());
      if (strangers.back() == 0) flood(port.number());
    }
  }
  on_ranks(4, [&](int rank) {
    const auto config = env_config(variables_of(rank, 4, port.number()), kLong);
    if (rank != 0) {
      // They come when it is well under way.
      std::vector<int> some;
      for (int i = 0; i < 20; ++i) some.push_back(dial(port.number()));
      for (const int fd : some) close_at_once(fd);
    }
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 100, 3);
  });
  for (const pid_t pid : strangers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace sk
