// Those that are left of a job's ranks: who is waited for, who is told that it is too late, and
// what becomes of one that ends in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "tests/unit/transport/bootstrap/here.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

BootstrapConfig left_config(int rank, int world_size, const std::string& job,
                            const std::function<bool(int)>& gone) {
  BootstrapConfig config = env_config(here_variables(rank, world_size, job), kLong);
  config.name = "what is left";
  config.gone = [gone](int r) { return gone(r) ? Gone::kYes : Gone::kNo; };
  return config;
}

Address meeting_place(const std::string& job) {
  auto env = read_job_env(env_config(here_variables(0, 3, job), 1).env, "what is left");
  EXPECT_TRUE(env.ok());
  return resolve(env.value()).value().front();
}

// Rank r of those that are left gives r's byte.
std::vector<int> gathered(Bootstrap& bootstrap, int mine) {
  const std::byte byte{uint8_t(mine)};
  const auto whole = bootstrap.allgather(std::span(&byte, 1), kLong);
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  std::vector<int> out;
  for (const std::byte each : whole.value()) out.push_back(int(each));
  return out;
}

TEST(Survivors, AreNumberedAnewInTheirOrder) {
  const std::string job = unique_job();
  on_ranks(6, [&](int rank) {
    if (rank == 1 || rank == 4) return;
    auto made = make_bootstrap(left_config(rank, 6, job, [](int r) { return r == 1 || r == 4; }));
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->world_size(), 4);
    EXPECT_EQ((*made)->launched_as((*made)->rank()), rank);
    EXPECT_EQ((*made)->launched_count(), 6);
    EXPECT_EQ((*made)->local_rank(), (*made)->rank());
    EXPECT_EQ((*made)->local_size(), 4);
    EXPECT_EQ((*made)->host_of(), std::vector<int>(4));
    EXPECT_EQ(gathered(**made, 10 + rank), std::vector<int>({10, 12, 13, 15}));
    expect_gathers(**made, 20'000, 3);
  });
}

TEST(Survivors, AreAskedAboutAndLeftOutByTheLaunchersNumbers) {
  const std::string job = unique_job();
  on_ranks(4, [&](int rank) {
    if (rank == 1) return;
    BootstrapConfig config = left_config(rank, 4, job, [](int r) { return r == 1; });
    config.gone = [](int r) {
      return r == 1 ? Gone::kYes : r == 2 ? Gone::kUnreachable : Gone::kNo;
    };
    std::vector<int> out;
    config.leave_out = [&](int r) { out.push_back(r); };
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_TRUE((*made)->of_survivors());
    EXPECT_EQ((*made)->gone(1), Gone::kUnreachable);
    EXPECT_EQ((*made)->gone(2), Gone::kNo);
    (*made)->leave_out(std::vector{1, 2});
    EXPECT_EQ(out, std::vector({2, 3}));
  });
}

TEST(Survivors, WhereNobodyIsGoneAllAreThere) {
  const std::string job = unique_job();
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(left_config(rank, 3, job, [](int) { return false; }));
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->rank(), rank);
    EXPECT_EQ(gathered(**made, rank), std::vector<int>({0, 1, 2}));
  });
}

// It is asked again while it waits, and who is here counts whatever is said of it.
TEST(Survivors, OneMayBeLostWhileTheOthersWait) {
  const std::string job = unique_job();
  std::atomic<int> asked = 0;
  on_ranks(3, [&](int rank) {
    if (rank == 2) return;
    auto made =
        make_bootstrap(left_config(rank, 3, job, [&](int r) { return r == 2 && ++asked > 3; }));
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->world_size(), 2);
  });
  EXPECT_GT(asked, 3);
}

TEST(Survivors, OneThatWasLeftOutIsToldSo) {
  const std::string job = unique_job();
  std::atomic<uint32_t> refused = 0;
  on_ranks(3, [&](int rank) {
    if (rank == 2) wait_for_listener(meeting_place(job));
    if (rank == 1) refused.wait(0);  // So long they meet.
    BootstrapConfig config = left_config(rank, 3, job, [](int r) { return r == 2; });
    int out = -1;
    config.leave_out = [&](int r) { out = r; };
    auto made = make_bootstrap(config);
    EXPECT_EQ(out, rank == 2 ? 2 : -1);
    if (rank < 2) {
      ASSERT_TRUE(made.ok()) << made.status().message();
      EXPECT_EQ((*made)->world_size(), 2);
      return;
    }
    EXPECT_EQ(made.status().code(), SK_ERR_TRANSPORT);
    EXPECT_THAT(made.status().message(), HasSubstr("have gone on without rank 2"));
    refused = 1;
    refused.notify_all();
  });
}

// Behind its part it is no longer needed for this gather: all others must have it, or none.
TEST(Survivors, OneThatEndsBehindItsPartKeepsItFromNobody) {
  const std::string job = unique_job();
  std::atomic<uint32_t> ended = 0;
  on_ranks(3, [&](int rank) {
    BootstrapConfig config = left_config(rank, 3, job, [](int) { return false; });
    const auto cancel = Cancel::make(-1);
    ASSERT_TRUE(cancel.ok());
    config.cancel = cancel.value();
    if (rank != 0) wait_for_listener(meeting_place(job));  // Of rank 0, at which all meet.
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const std::vector<std::byte> mine(8);
    if (rank == 2) {  // Gives its part, and goes.
      cancel.value()->request(error(SK_ERR_ABORTED, "enough"));
      EXPECT_EQ((*made)->allgather(mine, kLong).status().code(), SK_ERR_ABORTED);
      made.value().reset();
      ended = 1;
      ended.notify_all();
      return;
    }
    ended.wait(0);
    const auto whole = (*made)->allgather(mine, kLong);
    EXPECT_TRUE(whole.ok()) << whole.status().message();
    const auto next = (*made)->allgather(mine, kLong);
    EXPECT_EQ(next.status().code(), SK_ERR_PEER_LOST);
    EXPECT_THAT(next.status().message(), HasSubstr("rank 2 is gone"));
  });
}

TEST(Survivors, OfSeveralHostsNeedRankZero) {
  const HeldPort port;
  BootstrapConfig config = env_config(job_variables(1, 2, port.number()), kLong);
  config.gone = [](int rank) { return rank == 0 ? Gone::kYes : Gone::kNo; };
  const auto made = make_bootstrap(config);
  EXPECT_EQ(made.status().code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(made.status().message(), HasSubstr("rank 0 is gone"));
}

// A connection that was lost says nothing of a rank that comes.
TEST(Survivors, WhoIsUnreachableMayComeForAWhile) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    if (rank == 2) return;
    BootstrapConfig config = env_config(job_variables(rank, 3, port.number()), 4'000'000'000);
    config.name = "what is left of " + std::to_string(getpid());
    config.gone = [](int) { return Gone::kUnreachable; };
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(gathered(**made, rank), std::vector<int>({0, 1}));
  });
}

TEST(Survivors, OfSeveralHostsSayThatRankZeroCannotBeReached) {
  const HeldPort port;
  BootstrapConfig config = env_config(job_variables(1, 2, port.number()), 2'000'000'000);
  config.gone = [](int) { return Gone::kUnreachable; };
  const auto made = make_bootstrap(config);
  EXPECT_EQ(made.status().code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(made.status().message(), HasSubstr("rank 0 cannot be reached"));
  EXPECT_THAT(made.status().message(), HasSubstr("rank 0 may go on without them"));
}

TEST(Survivors, OfOneHostNeedNoAddress) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    if (rank == 0) return;
    BootstrapConfig config = env_config(job_variables(rank, 3, port.number()), kLong);
    config.name = "what is left of " + std::to_string(getpid());
    config.gone = [](int r) { return r == 0 ? Gone::kYes : Gone::kNo; };
    config.met_on_one_host = true;
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(gathered(**made, rank), std::vector<int>({1, 2}));
  });
}

}  // namespace
}  // namespace sk
