// Ranks of one host that meet without an address: only those of one start of one job of one user.
#include "tests/unit/transport/bootstrap/here.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

TEST(Here, RanksMeetWithoutAPortOrASecret) {
  for (const int world_size : {2, 3, 8}) {
    const std::string job = unique_job();
    on_ranks(world_size, [&](int rank) {
      for (uint64_t i = 0; i < 5; ++i) {
        auto made = make_bootstrap(env_config(here_variables(rank, world_size, job), kLong));
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ((*made)->rank(), rank);
        EXPECT_EQ((*made)->local_rank(), rank);
        EXPECT_EQ((*made)->local_size(), world_size);
        expect_gathers(**made, 5 + i, i);
        expect_gathers(**made, 20'000, i);
      }
    });
  }
}

TEST(Here, JobsAndTheirCommunicatorsDoNotMix) {
  const std::string jobs[] = {unique_job(), unique_job()};
  on_ranks(12, [&](int thread) {
    const int rank = thread % 3, kind = thread / 3;
    BootstrapConfig config = env_config(here_variables(rank, 3, jobs[kind % 2]), kLong);
    config.name = kind / 2 == 0 ? "first" : "second";
    for (uint64_t i = 0; i < 20; ++i) {
      auto made = make_bootstrap(config);
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 30, uint64_t(kind) * 100 + i);
    }
  });
}

TEST(Here, CommunicatorsOfOneNameFollowEachOtherInEveryThread) {
  const std::string job = unique_job();
  on_ranks(6, [&](int thread) {  // Two threads of each rank, in no order.
    for (uint64_t i = 0; i < 10; ++i) {
      auto made = make_bootstrap(env_config(here_variables(thread % 3, 3, job), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
    }
  });
}

// A rank that is left over from before a restart waits for others of its own time only.
TEST(Here, RestartsOfAJobDoNotMix) {
  const std::string job = unique_job();
  on_ranks(3, [&](int thread) {
    Variables variables = here_variables(thread == 2 ? 1 : thread, 2, job);
    variables["TORCHELASTIC_RESTART_COUNT"] = thread == 2 ? "0" : "1";
    auto made = make_bootstrap(env_config(variables, thread == 2 ? kEnough : kLong));
    if (thread == 2) {
      EXPECT_THAT(made.status().message(), HasSubstr("rank 0 did not come"));
    } else {
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 9, 1);
    }
  });
}

TEST(Here, ASecretIsAskedForWhereThereIsOne) {
  const std::string job = unique_job();
  on_ranks(3, [&](int rank) {
    Variables variables = here_variables(rank, 3, job);
    if (rank != 2) variables["SK_JOB_SECRET"] = "correct horse battery staple";
    const auto made = make_bootstrap(env_config(variables, kEnough));
    EXPECT_FALSE(made.ok());
    if (rank == 2) {
      EXPECT_EQ(made.status().code(), SK_ERR_TRUST) << made.status().message();
    }
  });
}

// A rank may have been started through what closed it, or through what gave its number away.
TEST(Here, ADescriptorForTheSecretIsNotAskedFor) {
  const std::string job = unique_job();
  on_ranks(4, [&](int rank) {
    Variables variables = here_variables(rank, 4, job);
    if (rank == 1) variables["SK_JOB_SECRET_FD"] = "987654:1:2";
    if (rank == 2) variables["SK_JOB_SECRET_FD"] = "0:1:2";
    if (rank == 3) variables["SK_JOB_SECRET_FD"] = "6";
    auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 9, 1);
  });
}

// Whoever is missing, rank 0 too: all others name exactly those, whoever runs out of time first.
TEST(Here, ExactlyThoseWhoDidNotComeAreNamedByAll) {
  struct {
    std::vector<int> missing;
    const char* sentence;
  } const table[] = {{{0}, "rank 0 did not come"},
                     {{2}, "rank 2 did not come"},
                     {{0, 3}, "ranks 0, 3 did not come"},
                     {{1, 2, 3}, "ranks 1-3 did not come"},
                     {{0, 1, 2, 4}, "ranks 0-2, 4 did not come"}};
  for (const auto& row : table) {
    const std::string job = unique_job();
    std::atomic<int> told = 0;
    on_ranks(5, [&](int rank) {
      if (std::count(row.missing.begin(), row.missing.end(), rank) > 0) return;
      const auto made =
          make_bootstrap(env_config(here_variables(rank, 5, job), kEnough / 2 + rank * 100 * kMs));
      EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(made.status().message(), HasSubstr(row.sentence));
      ++told;
    });
    EXPECT_EQ(told, 5 - int(row.missing.size()));
  }
}

TEST(Here, AThirdRankThatIsLateToAGatherIsNamedByAll) {
  for (const int late : {0, 1, 2}) {
    const std::string job = unique_job();
    std::atomic<int> over = 0;
    on_ranks(3, [&](int rank) {
      auto made = make_bootstrap(env_config(here_variables(rank, 3, job), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
      if (rank == late) {  // Alive, but elsewhere, until the others have given up.
        while (over < 2) over.wait(over);
        return;
      }
      const auto whole = (*made)->allgather(blob(rank, 8, 1), rank < 2 ? kEnough : kEnough / 2);
      EXPECT_EQ(whole.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(whole.status().message(),
                  HasSubstr(fmt::format("rank {} did not come to the all-gather", late)));
      ++over;
      over.notify_all();
    });
  }
}

TEST(Here, ARankThatGaveUpMayComeAgain) {
  const std::string job = unique_job();
  std::atomic<uint32_t> over = 0;  // With bool, libstdc++ 12 may sleep through a notice.
  on_ranks(3, [&](int rank) {
    const BootstrapConfig config = env_config(here_variables(rank, 3, job), kLong);
    for (int i = 0; rank == 1 && i < 5; ++i) {
      const auto cancel = Cancel::make(-1);
      ASSERT_TRUE(cancel.ok());
      BootstrapConfig early = config;
      early.cancel = cancel.value();
      std::thread asker([&] {
        pass(i * i * kMs);
        cancel.value()->request(error(SK_ERR_ABORTED, "not yet"));
      });
      EXPECT_EQ(make_bootstrap(early).status().code(), SK_ERR_ABORTED);
      asker.join();
    }
    if (rank == 1) {
      over = 1;
      over.notify_all();
    }
    if (rank == 2) over.wait(0);  // Else a try that all others wait for succeeds.
    // Rank 1's first tries may have been those at which the others waited.
    auto made = make_bootstrap(config);
    while (made.status().code() == SK_ERR_ABORTED) made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 6, 5);
  });
}

// Method: a rank forks, as multiprocessing does, and the child asks for what its variables say.
TEST(Here, WhatARankStartsNeitherJoinsNorHangs) {
  const std::string job = unique_job();
  const auto rank = [&](int number) { return here_variables(number, 2, job); };
  EXPECT_THAT(tried(rank(0), 1), HasSubstr("rank 1 did not come"));  // This process is rank 0 now.
  Child child([&] { return tried(rank(0), kLong); });
  const std::string told = child.said();
  EXPECT_THAT(told, HasSubstr("process " + std::to_string(getpid()) + ", from which this one"));
  EXPECT_THAT(told, HasSubstr("SK_BOOTSTRAP=single"));
  Child single([&] {
    Variables variables = rank(0);
    variables["SK_BOOTSTRAP"] = "single";
    return tried(variables, kLong);
  });
  EXPECT_EQ(single.said(), "made");
  // Where every rank has such children, they may be a world of their own.
  std::list<Child> worlds;
  for (const int number : {0, 1}) {
    worlds.emplace_back([&] {
      Variables variables = rank(number);
      variables["SK_JOB_ID"] = "children";
      return tried(variables, kLong);
    });
  }
  for (Child& world : worlds) EXPECT_EQ(world.said(), "made");
}

TEST(Here, ARankOfAnEndedProcessIsFreeAgain) {
  const std::string job = unique_job();
  for (int i = 0; i < 3; ++i) {
    Child first([&] { return tried(here_variables(0, 2, job), kLong); });
    Child second([&] { return tried(here_variables(1, 2, job), kLong); });
    EXPECT_EQ(first.said(), "made");
    EXPECT_EQ(second.said(), "made");
    Child twice([&] { return tried(here_variables(1, 2, job), kLong); });
    EXPECT_THAT(twice.said(), HasSubstr("process " + std::to_string(second.pid()) + " is rank 1"));
  }
}

// Method: rank 2 comes and goes until what it is told shows that rank 0 waits at rank 1, a process
// of its own, which is then killed.
TEST(Here, ARankThatDiesWhileOthersWaitAtItIsNamed) {
  const std::string job = unique_job();
  Child first([&] { return tried(here_variables(1, 4, job), kLong); });
  wait_for_listener(place_of(here_variables(1, 4, job)));
  const auto try_rank = [&](int rank, int64_t timeout_ns) {
    return tried(here_variables(rank, 4, job), timeout_ns);
  };
  EXPECT_THAT(try_rank(2, 50 * kMs), HasSubstr("ranks 0, 3 did not come"));
  std::string told;
  std::thread rank0([&] { told = try_rank(0, kLong); });
  for (std::string heard; heard.find("rank 3 did not come") == std::string::npos;) {
    heard = try_rank(2, 50 * kMs);
  }
  kill(first.pid(), SIGKILL);
  rank0.join();
  EXPECT_THAT(told, HasSubstr("rank 1 is gone"));
  // Nobody waits there any more, so the next one does.
  EXPECT_THAT(try_rank(2, 50 * kMs), HasSubstr("ranks 0-1, 3 did not come"));
}

// A process that took a rank's place has met less often than the others: they meet all the same.
TEST(Here, RanksThatHaveMetDifferentlyOftenMeet) {
  const std::string job = unique_job();
  for (const int world_size : {2, 4}) {  // Then ranks 0 and 1 have met once, 2 and 3 never.
    on_ranks(world_size, [&](int rank) {
      EXPECT_EQ(tried(here_variables(rank, world_size, job), kLong), "made");
    });
  }
}

// Method: a process in a space of PIDs of its own, as in a container that shares the host's
// network.
TEST(Here, ContainersThatRepeatAJobsNameDoNotMix) {
  const std::string job = unique_job();
  const auto name = [&] { return name_of(place_of(here_variables(0, 2, job))); };
  Child container([&]() -> std::string {
    if (unshare(CLONE_NEWPID) != 0) return "cannot unshare";
    Child inside(name);
    return inside.said();
  });
  Child neighbour(name);
  const std::string said = container.said();
  if (said == "cannot unshare") GTEST_SKIP() << "no right to make a space of PIDs";
  EXPECT_THAT(said, HasSubstr("superkernel-"));
  EXPECT_NE(said, name());
  EXPECT_EQ(neighbour.said(), name());
}

}  // namespace
}  // namespace sk
