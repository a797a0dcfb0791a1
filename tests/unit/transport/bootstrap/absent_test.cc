// Ranks that do not come, come with something else, or leave: each is named, and nobody hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/transport/bootstrap/world.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

TEST(BootstrapEnv, AMissingRankIsNamedByAllOthers) {
  const HeldPort port;
  on_ranks(4, [&](int rank) {
    if (rank == 2) return;
    // Rank 0 runs out of time last, so the members must know the name from its reports.
    const int64_t timeout_ns = rank == 0 ? 2 * kEnough : kEnough;
    const auto made = make_bootstrap(env_config(job_variables(rank, 4, port.number()), timeout_ns));
    EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT) << made.status().message();
    // Whoever is later may find another gone, but never takes it for one that did not come.
    EXPECT_THAT(made.status().message(), HasSubstr("rank 2 did not come"));
    if (rank == 0) {
      EXPECT_THAT(made.status().message(), HasSubstr("ranks 1, 3 came and gave up"));
    }
  });
}

TEST(BootstrapEnv, RankZeroNamesTheMissingRankAndTellsTheOthers) {
  const HeldPort port;
  on_ranks(4, [&](int rank) {
    if (rank == 2) return;
    const int64_t timeout_ns = rank == 0 ? kEnough : kLong;
    const auto made = make_bootstrap(env_config(job_variables(rank, 4, port.number()), timeout_ns));
    EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
    EXPECT_THAT(made.status().message(), HasSubstr("rank 2 did not come"));
  });
}

// Both sides: who set the variable looks at either.
TEST(BootstrapEnv, WhomTheHubRefusedIsToldByIt) {
  struct {
    const char* variable;
    const char* value;
    const char* sentence;
  } const table[] = {
      {"WORLD_SIZE", "4", "rank 1 came with WORLD_SIZE 4, which is 3 here"},
      {"SK_JOB_ID", "another", "rank 1 of another job came, by SK_JOB_ID"},
  };
  for (const auto& row : table) {
    const HeldPort port;
    on_ranks(3, [&](int rank) {
      Variables variables = job_variables(rank, 3, port.number());
      if (rank == 1) variables[row.variable] = row.value;
      const int64_t timeout_ns = rank == 0 ? 2 * kEnough : kEnough;
      const auto made = make_bootstrap(env_config(variables, timeout_ns));
      ASSERT_FALSE(made.ok());
      if (rank != 0) return;
      EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(made.status().message(), HasSubstr(row.sentence));
    });
  }
}

TEST(BootstrapEnv, AnAddressInBracketsIsRefusedAtOnce) {
  Variables variables = job_variables(1, 2, 1);
  variables["MASTER_ADDR"] = "[fd00::1]";
  const auto made = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(made.status().message(), HasSubstr("without brackets"));
}

TEST(BootstrapEnv, AMissingRankZeroIsNamed) {
  const HeldPort port;
  const auto made = make_bootstrap(env_config(job_variables(1, 2, port.number()), 200 * kMs));
  EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
  EXPECT_THAT(made.status().message(), HasSubstr("rank 0 did not come"));
  EXPECT_THAT(made.status().message(), HasSubstr(std::to_string(port.number())));
}

// What ranks are told while they wait, one sentence each time.
std::vector<std::string> told_while_waiting(int rank, const Variables& variables) {
  std::vector<std::string> told;
  BootstrapConfig config = env_config(variables, kEnough);
  config.notice_after_ns = 100 * kMs;
  config.still_waiting = [&](const std::string& sentence) { told.push_back(sentence); };
  EXPECT_FALSE(make_bootstrap(config).ok()) << rank;
  return told;
}

TEST(BootstrapEnv, ForWhomRankZeroWaitsIsToldMeanwhile) {
  const HeldPort port;
  const auto told = told_while_waiting(0, job_variables(0, 3, port.number()));
  ASSERT_GE(told.size(), 2u) << "first, and again";
  EXPECT_LE(told.size(), 4u);
  EXPECT_THAT(told[0], HasSubstr("rank 0 of 3 waits: ranks 1-2 did not come; where rank 0 waits "
                                 "is MASTER_ADDR \"127.0.0.1\", MASTER_PORT " +
                                 std::to_string(port.number())));
  EXPECT_THAT(told[0], HasSubstr("; it is waited for 1 s more at most"));
}

TEST(BootstrapEnv, ThatRankZeroDoesNotAnswerIsToldMeanwhile) {
  const HeldPort port;
  const auto told = told_while_waiting(1, job_variables(1, 3, port.number()));
  ASSERT_GE(told.size(), 2u);
  EXPECT_LE(told.size(), 4u);
  EXPECT_THAT(told[0], HasSubstr("rank 1 of 3 waits: rank 0 does not answer at MASTER_ADDR "
                                 "\"127.0.0.1\", MASTER_PORT " +
                                 std::to_string(port.number())));
  EXPECT_THAT(told[0], HasSubstr("Connection refused"));
}

TEST(BootstrapEnv, WhoeverWaitsOnOneHostIsToldMeanwhile) {
  const auto told = told_while_waiting(1, here_variables(1, 3, unique_job()));
  ASSERT_FALSE(told.empty());
  EXPECT_THAT(told[0], HasSubstr("rank 1 of 3 waits: ranks 0, 2 did not come"));
}

TEST(BootstrapEnv, ARankThatGaveUpMayComeAgain) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    if (rank == 1) {
      const auto early = make_bootstrap(env_config(job_variables(1, 2, port.number()), 1));
      EXPECT_EQ(early.status().code(), SK_ERR_TIMEOUT);
    }
    auto made = make_bootstrap(env_config(job_variables(rank, 2, port.number()), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 6, 5);
  });
}

TEST(BootstrapEnv, ARankThatLeavesIsNamed) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(env_config(job_variables(rank, 3, port.number()), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    if (rank == 1) return;
    const auto whole = (*made)->allgather(blob(rank, 8, 1), kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_PEER_LOST);
    EXPECT_THAT(whole.status().message(), HasSubstr("rank 1"));
    const auto after = (*made)->allgather(blob(rank, 8, 1), kLong);
    EXPECT_EQ(after.status().code(), SK_ERR_PEER_LOST);
  });
}

TEST(BootstrapEnv, ARankThatIsLateToAGatherIsNamedByAll) {
  const HeldPort port;
  std::atomic<int> over = 0;
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(env_config(job_variables(rank, 3, port.number()), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    if (rank == 2) {  // Alive, but elsewhere, until the others have given up.
      while (over < 2) over.wait(over);
      return;
    }
    const auto whole = (*made)->allgather(blob(rank, 8, 1), rank == 0 ? kEnough : kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_TIMEOUT);
    EXPECT_THAT(whole.status().message(), HasSubstr("rank 2 did not come"));
    ++over;
    over.notify_all();
  });
}

TEST(BootstrapEnv, SizesThatDifferAreNamed) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(env_config(job_variables(rank, 3, port.number()), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto whole = (*made)->allgather(blob(rank, rank == 2 ? 12 : 8, 1), kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_DESYNC);
    EXPECT_THAT(whole.status().message(),
                HasSubstr("rank 2 gathers 12 bytes where rank 0 gathers 8"));
  });
}

TEST(BootstrapEnv, WorldSizesThatDifferAreNamed) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    const auto made = make_bootstrap(env_config(
        job_variables(rank, rank == 0 ? 2 : 3, port.number()), rank == 0 ? kEnough : kLong));
    if (rank == 0) {
      EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
    } else {
      EXPECT_EQ(made.status().code(), SK_ERR_INVALID_ARGUMENT);
      EXPECT_THAT(made.status().message(), HasSubstr("WORLD_SIZE is 3 on rank 1 and 2 on rank 0"));
    }
  });
}

TEST(BootstrapEnv, ARankGivenTwiceIsTold) {
  const HeldPort port;
  std::atomic<int> refused = 0;
  on_ranks(3, [&](int thread) {  // Rank 2 is missing, rank 1 is there twice.
    const int rank = thread == 0 ? 0 : 1;
    const auto made =
        make_bootstrap(env_config(job_variables(rank, 3, port.number()), 2 * kEnough));
    EXPECT_FALSE(made.ok());
    if (made.status().code() == SK_ERR_INVALID_ARGUMENT) {
      EXPECT_THAT(made.status().message(), HasSubstr("RANK is 1 in another process"));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 1);
}

TEST(BootstrapThreads, MissingThreadsAreNamedAndTheNameIsFreeAgain) {
  const auto early = make_bootstrap(threads_config(1, 4, "late", 50 * kMs));
  EXPECT_EQ(early.status().code(), SK_ERR_TIMEOUT);
  EXPECT_THAT(early.status().message(), HasSubstr("ranks 0, 2-3 did not come within"));
  on_ranks(2, [&](int rank) {
    auto made = make_bootstrap(threads_config(rank, 2, "late", kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 8, 1);
  });
}

// Method: rank 1 runs out of time while rank 2 is there, which then runs out of its own.
TEST(BootstrapThreads, AThreadThatGaveUpIsNotTakenForOneThatDidNotCome) {
  std::atomic<bool> gave_up = false;
  on_ranks(2, [&](int thread) {
    if (thread == 0) {
      const auto early = make_bootstrap(threads_config(1, 4, "left", kEnough / 2));
      EXPECT_THAT(early.status().message(), HasSubstr("in thread group \"left\""));
      gave_up = true;
    } else {
      const auto late = make_bootstrap(threads_config(2, 4, "left", kEnough));
      EXPECT_TRUE(gave_up);
      EXPECT_THAT(late.status().message(),
                  HasSubstr("ranks 0, 3 did not come and rank 1 came and gave up within"));
    }
  });
}

TEST(BootstrapThreads, LateThreadsAreNamed) {
  std::atomic<int> over = 0;
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(threads_config(rank, 3, "slow", kLong));
    ASSERT_TRUE(made.ok());
    if (rank == 1) {
      while (over < 2) over.wait(over);
      return;
    }
    const auto whole = (*made)->allgather(blob(rank, 8, 1), rank == 0 ? kEnough : kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_TIMEOUT);
    EXPECT_THAT(whole.status().message(), HasSubstr("rank 1"));
    ++over;
    over.notify_all();
  });
}

TEST(BootstrapThreads, AThreadThatLeavesEndsTheOthers) {
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(threads_config(rank, 3, "leaver", kLong));
    ASSERT_TRUE(made.ok());
    if (rank == 1) return;
    const auto whole = (*made)->allgather(blob(rank, 8, 1), kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_PEER_LOST);
    EXPECT_THAT(whole.status().message(), HasSubstr("rank 1"));
  });
}

TEST(BootstrapThreads, SizesThatDifferAreNamed) {
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(threads_config(rank, 3, "sizes", kLong));
    ASSERT_TRUE(made.ok());
    const auto whole = (*made)->allgather(blob(rank, rank == 1 ? 3 : 4, 1), kLong);
    EXPECT_EQ(whole.status().code(), SK_ERR_DESYNC);
    EXPECT_THAT(whole.status().message(), HasSubstr("rank 1 gathers 3 bytes"));
  });
}

// One of the two is refused at once; the other, which goes on waiting, is told of it at the end.
TEST(BootstrapThreads, WhoWaitsHearsWhoWasRefused) {
  const auto enter = [](int world_size, int64_t timeout_ns) {
    const auto made = make_bootstrap(threads_config(1, world_size, "refused", timeout_ns));
    EXPECT_FALSE(made.ok());
    return made.status().clone();
  };
  std::atomic<uint32_t> refused = 0;
  std::string heard;  // Of all tries: under load the two may miss each other at first.
  std::thread other([&] {
    while (refused == 0) heard += enter(3, kEnough).message();
  });
  while (enter(2, kMs).code() != SK_ERR_INVALID_ARGUMENT) std::this_thread::yield();
  refused = 1;
  other.join();
  EXPECT_THAT(heard,
              HasSubstr("; meanwhile rank 1 was refused: world_size is 2 where other threads "
                        "of group \"refused\" said 3"));
}

}  // namespace
}  // namespace sk
