// Ranks of hosts that several share meet through one rank of each host. Who does not come, or calls
// something else, is named all the same, by ranks that have no message of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <string>

#include "tests/multi/fault_backend.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 6, kRanksPerHost = 2;

class HostsCalls : public testing::TestWithParam<int> {
 protected:
  HostsCalls() { use_hosts(kRanksPerHost); }
  ~HostsCalls() override { use_backend(nullptr); }
};

// Whoever gives up first says for whom it waited, to all.
TEST_P(HostsCalls, WhoDoesNotComeIsNamed) {
  const int absent = GetParam();
  std::latch told(kRanks - 1);
  in_thread_ranks(
      kRanks,
      [&](sk_comm* comm, int rank) {
        ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
        if (rank == absent) return told.wait();
        const sk_status status = sk_barrier(comm, nullptr);
        EXPECT_TRUE(status == SK_ERR_TIMEOUT || status == SK_ERR_ABORTED) << status;
        EXPECT_THAT(sk_last_error(),
                    HasSubstr("for rank " + std::to_string(absent) + " in barrier"));
        told.count_down();
      },
      [](sk_comm_config& config) { config.timeout_ms = 700; });
}

using Clock = std::chrono::steady_clock;

// When a rank first looked around in a wait, behind which it tells each that it has come.
struct FirstLook {
  std::atomic<Clock::rep> at{0};
  static void look(void* user) {
    Clock::rep never = 0;
    static_cast<FirstLook*>(user)->at.compare_exchange_strong(
        never, Clock::now().time_since_epoch().count());
  }
};

// A wait that is over before a rank looks around where it has long. Rounds count in which all had
// done so some time before the first one gave up: a busy machine may let ranks come late, which are
// rightly named.
TEST_P(HostsCalls, WhoDoesNotComeIsNamedWithinAShortTimeout) {
  constexpr int kWanted = 6, kRoundsMax = 300;
  const int absent = GetParam();
  int fair = 0, named = 0;
  for (int round = 0; round < kRoundsMax && fair < kWanted; ++round) {
    std::latch told(kRanks - 1);
    std::array<FirstLook, kRanks> looks;
    std::atomic<int> right{0};
    std::atomic<Clock::rep> given_up{0};
    in_thread_ranks(
        kRanks,
        [&](sk_comm* comm, int rank) {
          ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
          looks[size_t(rank)].at = 0;
          if (rank == absent) return told.wait();
          sk_run_options options{};
          options.struct_size = sizeof(options);
          options.timeout_ms = 45;
          const sk_status status = sk_barrier(comm, &options);
          Clock::rep never = 0;
          given_up.compare_exchange_strong(never, Clock::now().time_since_epoch().count());
          EXPECT_TRUE(status == SK_ERR_TIMEOUT || status == SK_ERR_ABORTED) << status;
          const std::string sentence = sk_last_error();
          right += sentence.find("for rank " + std::to_string(absent) + " in") != std::string::npos;
          told.count_down();
        },
        [&](sk_comm_config& config) {
          config.waiting = FirstLook::look;
          config.waiting_user = &looks[size_t(config.rank)];
        });
    const Clock::rep margin = Clock::duration(std::chrono::milliseconds(15)).count();
    bool is_fair = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Clock::rep at = looks[size_t(rank)].at;
      is_fair = is_fair && (rank == absent || (at != 0 && at + margin < given_up));
    }
    fair += is_fair;
    named += is_fair && right == kRanks - 1;
  }
  EXPECT_GE(fair, 1) << "no rank looked around in time";
  EXPECT_GE(2 * named, fair) << named << " of " << fair;
}

// Of one rank: a look every 50 ms while it waits; at the second one it has told each that it does.
struct Looks {
  std::latch* all = nullptr;
  int count = 0;
  static void look(void* user) {
    auto* looks = static_cast<Looks*>(user);
    if (looks->count++ < kEach) looks->all->count_down();
  }
  static constexpr int kEach = 2;
};

// Whoever has waited long has told each, and gets no answer from who has not and is gone by now.
TEST_P(HostsCalls, RanksMayLeaveBehindACallThatOthersHaveWaitedForLong) {
  const int last = GetParam();
  for (int round = 0; round < 5; ++round) {
    std::latch waited(Looks::kEach * (kRanks - 1));
    std::array<Looks, kRanks> looks;
    in_thread_ranks(
        kRanks,
        [&](sk_comm* comm, int rank) {
          if (rank == last) waited.wait();
          EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
        },
        [&](sk_comm_config& config) {
          Looks& own = looks[size_t(config.rank)];
          own.all = &waited;
          config.waiting = Looks::look;
          config.waiting_user = &own;
        });
  }
}

// A rank that sends to one that is in a collective: both learn it, by name.
TEST_P(HostsCalls, ACollectiveAndAMessageThatWaitForEachOtherEnd) {
  const int sender = GetParam(), receiver = (sender + 3) % kRanks;
  in_thread_ranks(kRanks, [&](sk_comm* comm, int rank) {
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
    float one = 1;
    const sk_status status = rank == sender ? sk_send(comm, &one, 1, SK_F32, receiver, nullptr)
                                            : sk_barrier(comm, nullptr);
    EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_ABORTED) << status;
    EXPECT_THAT(sk_last_error(), HasSubstr("rank " + std::to_string(receiver) + " called"));
    EXPECT_THAT(sk_last_error(), HasSubstr("rank " + std::to_string(sender) + " called"));
  });
}

INSTANTIATE_TEST_SUITE_P(All, HostsCalls, testing::Values(0, 1, 3, 4));

}  // namespace
}  // namespace sk::testing_ops
