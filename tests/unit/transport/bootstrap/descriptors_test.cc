// Rank 0 of a job over hosts, where its process may have no descriptor more: a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "tests/unit/transport/bootstrap/world.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Ends with 0 where the others came. `beside` runs beside it, with the listening port.
template <typename Beside>
pid_t start_hub(int port, int world_size, rlimit limit, const Beside& beside) {
  const pid_t hub = fork();
  if (hub != 0) return hub;
  alarm(100);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
  std::thread program(beside);
  auto made = make_bootstrap(env_config(job_variables(0, world_size, port), kLong));
  if (!made.ok()) fprintf(stderr, "rank 0: %s\n", made.status().message().c_str());
  program.join();
  _exit(made.ok() ? 0 : 1);
}

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Opens all that this process may have, once it listens.
std::vector<int> open_all(int port) {
  close(dial(port));
  std::vector<int> opened;
  for (int time = 0; time < 2; ++time) {
    for (int fd = dup(0); fd >= 0; fd = dup(0)) opened.push_back(fd);
    if (time == 0) pass(200 * kMs);  // Meanwhile it may let go of that connection.
  }
  return opened;
}

TEST(BootstrapDescriptors, TheSoftLimitIsRaisedForTheOthers) {
  const HeldPort port;
  const pid_t hub = start_hub(port.number(), 24, {20, 200}, [] {});
  on_ranks(24, [&](int rank) {
    if (rank == 0) return;
    const auto made = make_bootstrap(env_config(job_variables(rank, 24, port.number()), kLong));
    EXPECT_TRUE(made.ok()) << made.status().message();
  });
  EXPECT_EQ(status_of(hub), 0);
}

TEST(BootstrapDescriptors, TooFewAreToldToAllWithNeedAndLimit) {
  const HeldPort port;
  const pid_t hub = start_hub(port.number(), 24, {20, 20}, [] {});
  on_ranks(24, [&](int rank) {
    if (rank == 0) return;
    if (rank > 12) pass(500 * kMs);  // Behind the others.
    const auto made = make_bootstrap(env_config(job_variables(rank, 24, port.number()), kLong));
    EXPECT_EQ(made.status().code(), SK_ERR_NO_MEMORY);
    EXPECT_THAT(made.status().message(),
                AllOf(HasSubstr("rank 0, where 24 ranks meet, takes 23 descriptors more"),
                      HasSubstr("of at most 20 descriptors are open (ulimit -n; the hard limit"),
                      Not(HasSubstr("refused"))));
  });
  EXPECT_EQ(status_of(hub), 1);
}

TEST(BootstrapDescriptors, AreWaitedForForAMoment) {
  const HeldPort port;
  int full[2];
  ASSERT_EQ(pipe(full), 0);
  const pid_t hub = start_hub(port.number(), 2, {64, 64}, [&] {
    const std::vector<int> opened = open_all(port.number());
    (void)!write(full[1], "x", 1);
    pass(700 * kMs);
    for (const int fd : opened) close(fd);
  });
  char byte = 0;
  ASSERT_EQ(read(full[0], &byte, 1), 1);
  const auto made = make_bootstrap(env_config(job_variables(1, 2, port.number()), kLong));
  EXPECT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(status_of(hub), 0);
  close(full[0]);
  close(full[1]);
}

// The first to come is there before: it is told, and makes room for the others to be told as well.
TEST(BootstrapDescriptors, NoneForLongIsToldToAll) {
  const HeldPort port;
  int full[2];
  ASSERT_EQ(pipe(full), 0);
  const pid_t hub = start_hub(port.number(), 3, {64, 64}, [&] {
    std::vector<int> opened = open_all(port.number());
    close(opened.back());
    (void)!write(full[1], "x", 1);
  });
  char byte = 0;
  ASSERT_EQ(read(full[0], &byte, 1), 1);
  on_ranks(3, [&](int rank) {
    if (rank == 0) return;
    if (rank == 2) pass(200 * kMs);
    const auto made = make_bootstrap(env_config(job_variables(rank, 3, port.number()), kLong));
    EXPECT_EQ(made.status().code(), SK_ERR_NO_MEMORY);
    EXPECT_THAT(made.status().message(),
                AllOf(HasSubstr("rank 0, where the others meet, has no descriptor for one that"),
                      HasSubstr("of at most 64 descriptors are open")));
  });
  EXPECT_EQ(status_of(hub), 1);
  close(full[0]);
  close(full[1]);
}

}  // namespace
}  // namespace sk
