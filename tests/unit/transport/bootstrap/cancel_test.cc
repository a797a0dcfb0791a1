// Creations that are given up: every wait ends at once with the reason, and the next one meets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

using Flag = std::atomic<uint32_t>;        // With bool, libstdc++ 12 may sleep through a notice.
constexpr int64_t kAtOnce = 20'000 * kMs;  // Far below kLong, for a machine under load.

std::shared_ptr<Cancel> make_cancel(int fd = -1) {
  auto made = Cancel::make(fd);
  EXPECT_TRUE(made.ok());
  return *made;
}

Status gone() { return error(SK_ERR_PEER_LOST, "rank 9 is gone"); }

BootstrapConfig rank_config(int rank, int world_size, int port, std::shared_ptr<Cancel> cancel) {
  BootstrapConfig config = env_config(job_variables(rank, world_size, port), kLong);
  config.cancel = std::move(cancel);
  return config;
}

// Runs `wait`, asks for its end once it is likely to be under way, and says what it ended with.
template <typename Wait>
Status cancelled_in(Cancel& cancel, const Wait& wait) {
  const int64_t start_ns = bootstrap_clock_ns();
  std::thread asker([&] {
    pass(300 * kMs);
    cancel.request(gone());
  });
  Status status = wait();
  asker.join();
  EXPECT_LT(bootstrap_clock_ns() - start_ns, kAtOnce);
  return status;
}

void expect_gone(const Status& status) {
  EXPECT_EQ(status.code(), SK_ERR_PEER_LOST) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("rank 9 is gone"));
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(Cancel, EndsTheWaitOfRankZeroForTheOthers) {
  const HeldPort port;
  const auto cancel = make_cancel();
  expect_gone(cancelled_in(*cancel, [&] {
    return std::move(make_bootstrap(rank_config(0, 3, port.number(), cancel)).status());
  }));
}

TEST(Cancel, EndsTheSearchForRankZero) {
  const HeldPort port;
  const auto cancel = make_cancel();
  expect_gone(cancelled_in(*cancel, [&] {
    return std::move(make_bootstrap(rank_config(1, 3, port.number(), cancel)).status());
  }));
}

TEST(Cancel, EndsTheWaitForAnAnswerAndForAnotherCommunicator) {
  const HeldPort port;
  const int silent = port.listen();  // Takes connections and says nothing.
  const auto cancel = make_cancel();
  expect_gone(cancelled_in(*cancel, [&] {
    return std::move(make_bootstrap(rank_config(1, 3, port.number(), cancel)).status());
  }));
  close(silent);
}

TEST(Cancel, OfRankZeroIsToldToThoseThatHaveJoined) {
  const HeldPort port;
  const auto cancel = make_cancel();
  std::thread joined([&] {
    const auto made = make_bootstrap(rank_config(1, 3, port.number(), make_cancel()));
    expect_gone(made.status());
  });
  expect_gone(cancelled_in(*cancel, [&] {
    return std::move(make_bootstrap(rank_config(0, 3, port.number(), cancel)).status());
  }));
  joined.join();
}

TEST(Cancel, OfARankThatHasJoinedFreesItsPlace) {
  const HeldPort port;
  const auto never = make_cancel(), cancel = make_cancel();
  Flag left = 0;  // Rank 1, for the first time.
  on_ranks(3, [&](int rank) {
    if (rank == 1) {
      expect_gone(cancelled_in(*cancel, [&] {
        return std::move(make_bootstrap(rank_config(1, 3, port.number(), cancel)).status());
      }));
      left = 1;
      left.notify_all();
    } else if (rank == 2) {  // Late, so that rank 1 must wait.
      left.wait(0);
    }
    auto made = make_bootstrap(rank_config(rank, 3, port.number(), never));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 6, 5);
  });
}

TEST(Cancel, EndsAGatherOnEitherSide) {
  for (const int waiting : {0, 1}) {
    SCOPED_TRACE(waiting);
    const HeldPort port;
    const auto cancel = make_cancel();
    Flag over = 0;
    on_ranks(2, [&](int rank) {
      auto made = make_bootstrap(
          rank_config(rank, 2, port.number(), rank == waiting ? cancel : make_cancel()));
      ASSERT_TRUE(made.ok()) << made.status().message();
      if (rank != waiting) {
        over.wait(0);
        return;
      }
      expect_gone(cancelled_in(*cancel, [&] {
        return std::move((*made)->allgather(blob(rank, 8, 1), kLong).status());
      }));
      over = 1;
      over.notify_all();
    });
  }
}

TEST(Cancel, EndsTheWaitForATurnAtThePort) {
  const HeldPort port;
  const auto first = make_cancel(), second = make_cancel();
  std::thread holder(
      [&] { expect_gone(make_bootstrap(rank_config(0, 2, port.number(), first)).status()); });
  close(dial(port.number()));  // It listens.
  expect_gone(cancelled_in(*second, [&] {
    return std::move(make_bootstrap(rank_config(0, 2, port.number(), second)).status());
  }));
  first->request(gone());
  holder.join();
}

TEST(Cancel, EndsTheWaitsOfThreads) {
  const auto cancel = make_cancel();
  BootstrapConfig config = threads_config(1, 2, "cancelled", kLong);
  config.cancel = cancel;
  expect_gone(cancelled_in(*cancel, [&] { return std::move(make_bootstrap(config).status()); }));
  const auto later = make_cancel();
  Flag over = 0;
  on_ranks(2, [&](int rank) {  // The name is free again.
    BootstrapConfig again = threads_config(rank, 2, "cancelled", kLong);
    if (rank == 1) again.cancel = later;
    auto made = make_bootstrap(again);
    ASSERT_TRUE(made.ok()) << made.status().message();
    if (rank == 0) {
      over.wait(0);
      return;
    }
    expect_gone(cancelled_in(
        *later, [&] { return std::move((*made)->allgather(blob(1, 8, 1), kLong).status()); }));
    over = 1;
    over.notify_all();
  });
}

// Once while the rank waits, then before it begins.
TEST(Cancel, ByTheCallersDescriptor) {
  const HeldPort port;
  for (const int rank : {0, 1}) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    std::thread asker([&] {
      pass(300 * kMs);
      const uint64_t one = 1;
      ASSERT_EQ(write(fd, &one, sizeof(one)), ssize_t(sizeof(one)));
    });
    for (const char* when : {"while it waits", "before"}) {
      const auto made = make_bootstrap(rank_config(rank, 2, port.number(), make_cancel(fd)));
      EXPECT_EQ(made.status().code(), SK_ERR_ABORTED) << when;
      EXPECT_THAT(made.status().message(), HasSubstr("was cancelled"));
      if (asker.joinable()) asker.join();
    }
    close(fd);
  }
}

// Nobody's wait would see it, so the others would be met and left.
TEST(Cancel, BeforeItBeganEndsNoneOfTheOthers) {
  const HeldPort port;
  const std::string job = unique_job();
  const std::function<BootstrapConfig(int)> worlds[] = {
      [&](int rank) { return rank_config(rank, 2, port.number(), nullptr); },
      [&](int rank) { return env_config(here_variables(rank, 2, job), kLong); },
      [&](int rank) { return threads_config(rank, 2, "not begun", kLong); },
  };
  for (const auto& config : worlds) {
    for (const int unwilling : {0, 1}) {
      std::thread other([&] {
        const auto made = make_bootstrap(config(1 - unwilling));
        EXPECT_TRUE(made.ok()) << made.status().message();
      });
      pass(100 * kMs);
      BootstrapConfig early = config(unwilling);
      const auto cancel = make_cancel();
      early.cancel = cancel;
      cancel->request(gone());
      expect_gone(make_bootstrap(early).status());
      const auto made = make_bootstrap(config(unwilling));
      EXPECT_TRUE(made.ok()) << made.status().message();
      other.join();
    }
  }
}

// Ranks give up at any moment, some of them late; whoever comes with the next name meets.
TEST(Cancel, AtRandomMomentsLeavesNothingBehind) {
  constexpr int kRanks = 4;
  const HeldPort port;
  // A process keeps its claim of a rank open to its end, so it is there before anything is counted.
  on_ranks(kRanks, [&](int rank) {
    EXPECT_TRUE(make_bootstrap(rank_config(rank, kRanks, port.number(), make_cancel())).ok());
  });
  const size_t before = open_descriptors();
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::shared_ptr<Cancel>> cancels;
    std::vector<int64_t> at_ns;
    for (int rank = 0; rank < kRanks; ++rank) {
      cancels.push_back(make_cancel());
      at_ns.push_back(int64_t(random() % 3000) * 1000);
    }
    const int absent = int(random() % kRanks);  // The one that died.
    const int64_t start_ns = bootstrap_clock_ns();
    on_ranks(2 * kRanks, [&](int thread) {
      const int rank = thread % kRanks;
      if (thread >= kRanks) {
        while (bootstrap_clock_ns() < start_ns + at_ns[size_t(rank)]) std::this_thread::yield();
        return cancels[size_t(rank)]->request(gone());
      }
      const auto config = [&](const char* which, std::shared_ptr<Cancel> cancel) {
        BootstrapConfig made = rank_config(rank, kRanks, port.number(), std::move(cancel));
        made.name = which + std::to_string(round);
        return made;
      };
      if (rank != absent) {
        const auto early = make_bootstrap(config("early", cancels[size_t(rank)]));
        EXPECT_FALSE(early.ok());
      }
      auto made = make_bootstrap(config("again", make_cancel()));
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 16, uint64_t(round));
    });
    EXPECT_LT(bootstrap_clock_ns() - start_ns, kAtOnce);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace sk
