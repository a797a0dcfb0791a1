// Communicators of those that are left, where nobody died: who is waited for, what ends the wait,
// and what it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/multi/forked_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ShrinkAlive : public testing::TestWithParam<Meets> {};
INSTANTIATE_TEST_SUITE_P(Meets, ShrinkAlive, testing::Values(Meets::kHere, Meets::kAtAnAddress));

TEST_P(ShrinkAlive, WhereNobodyIsLostItIsAnotherOfTheSameRanks) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    sk_comm* left = nullptr;
    self.say(shrunk(self, self.comm, 0, &left));
    self.say(who_is_there(self, self.comm));  // Which is as it was.
    return who_is_there(self, left);
  });
  for (int time = 0; time < 3; ++time) {
    EXPECT_THAT(ranks.all_said({0, 1, 2}),
                ElementsAre("rank 0 of 3: 7", "rank 1 of 3: 7", "rank 2 of 3: 7"));
  }
}

// The random number of the first of its line tells communicators of one name apart.
TEST_P(ShrinkAlive, TwoOfOneNameDoNotMix) {
  ForkedRanks ranks(2, GetParam(), [](ForkedRank& self) {
    sk_comm* comms[2] = {self.comm, nullptr};
    sk_comm_config config{};
    config.struct_size = sizeof config;
    config.timeout_ms = 20'000;
    if (const sk_status status = sk_comm_create(self.context, &config, &comms[1]); status != SK_OK)
      return failed(status);
    std::string wrong[2];
    const auto shrink_and_sum = [&](int which) {
      for (int i = 0; i < 20 && wrong[which].empty(); ++i) {
        sk_comm* left = nullptr;
        sk_status status = sk_comm_shrink(comms[which], 20'000, &left);
        std::vector<float> x(size_t(100 + which), float(which + 1));
        if (status == SK_OK)
          status =
              sk_allreduce(left, x.data(), x.data(), int64_t(x.size()), SK_F32, SK_SUM, nullptr);
        if (status != SK_OK) wrong[which] = failed(status);
        if (status == SK_OK && x[0] != float(2 * which + 2)) wrong[which] = "mixed";
        if (left != nullptr && sk_comm_free(left) != SK_OK) wrong[which] = failed(SK_ERR_INTERNAL);
      }
    };
    std::thread first(shrink_and_sum, self.number);  // Each rank begins with another one.
    shrink_and_sum(1 - self.number);
    first.join();
    return wrong[0] + wrong[1];
  });
  EXPECT_THAT(ranks.all_said({0, 1}), testing::Each(""));
}

// Two that come of one another meet at one name.
TEST_P(ShrinkAlive, RelativesDoNotMix) {
  ForkedRanks ranks(2, GetParam(), [](ForkedRank& self) {
    sk_comm* child = nullptr;
    self.say(shrunk(self, self.comm, 0, &child));
    // Each rank shrinks another one, then the one that the other has shrunk.
    for (int turn = 0; turn < 2; ++turn)
      self.say(shrunk(self, self.number == turn ? self.comm : child, 20'000));
    return shrunk(self, child, 20'000);  // In the same order it goes on.
  });
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_THAT(ranks.all_said({0, 1}),
                testing::Each(HasSubstr("SK_ERR_DESYNC: rank 0 shrinks one communicator and rank 1 "
                                        "another, which both come of the same one")));
  }
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
}

// As where who let them meet dies in their last step: one has nothing and tries again, the others
// have a communicator that is over.
TEST_P(ShrinkAlive, RanksWhoseLastStepEndedDifferentlyMeetAgain) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    sk_comm* left = nullptr;
    self.say(shrunk(self, self.comm, 0, &left));
    self.wait();
    self.say("shrinks");
    if (self.number == 1 && sk_comm_free(left) != SK_OK) return failed(SK_ERR_INTERNAL);
    return shrunk(self, self.number == 1 ? self.comm : left, 20'000);
  });
  EXPECT_THAT(ranks.all_said({0, 1, 2}),
              ElementsAre("rank 0 of 3: 7", "rank 1 of 3: 7", "rank 2 of 3: 7"));
  ranks.go_on(1);
  EXPECT_EQ(ranks.said(1), "shrinks");
  pass_ms(500);
  ranks.go_on(0);
  ranks.go_on(2);
  EXPECT_THAT(ranks.all_said({0, 2}), testing::Each("shrinks"));
  EXPECT_THAT(ranks.all_said({0, 1, 2}),
              ElementsAre("rank 0 of 3: 7", "rank 1 of 3: 7", "rank 2 of 3: 7"));
}

TEST_P(ShrinkAlive, OneThatIsAliveAndDoesNotComeIsNamed) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    if (self.number != 1) return shrunk(self, self.comm, 1500);
    self.wait();
    return std::string();
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks.said(rank), testing::StartsWith("SK_ERR_TIMEOUT: rank 1 did not come within"))
        << rank;
  }
}

TEST_P(ShrinkAlive, TheTimeoutIsTheCommunicatorsOwnWhereNoneIsGiven) {
  const auto begin = std::chrono::steady_clock::now();
  ForkedRanks ranks(
      2, GetParam(),
      [](ForkedRank& self) {
        if (self.number == 0) return shrunk(self, self.comm);
        self.wait();
        return std::string();
      },
      /*timeout_ms=*/2000);
  EXPECT_THAT(ranks.said(0), HasSubstr("rank 1 did not come within 2000 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_P(ShrinkAlive, OneThatHasFreedItsOwnIsNotWaitedFor) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    if (self.number != 1) return shrunk(self, self.comm);
    return std::string(sk_comm_free(self.comm) == SK_OK ? "freed" : "not freed");
  });
  EXPECT_EQ(ranks.said(1), "freed");
  EXPECT_THAT(ranks.all_said({0, 2}), ElementsAre("rank 0 of 2: 5", "rank 1 of 2: 5"));
}

// One that is aborted has lost nobody.
TEST_P(ShrinkAlive, RanksThatAbortedGoOn) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    if (self.number == 1 && sk_comm_abort(self.comm, "enough") != SK_OK)
      return failed(SK_ERR_INTERNAL);
    return shrunk(self, self.comm);
  });
  EXPECT_THAT(ranks.all_said({0, 1, 2}),
              ElementsAre("rank 0 of 3: 7", "rank 1 of 3: 7", "rank 2 of 3: 7"));
}

TEST_P(ShrinkAlive, AnAbortMeanwhileEndsItOnThisRank) {
  ForkedRanks ranks(2, GetParam(), [](ForkedRank& self) {
    if (self.number == 1) {
      self.wait();
      return shrunk(self, self.comm);
    }
    self.say("shrinks");
    std::thread other([&] {
      self.wait();
      sk_comm_abort(self.comm, "enough of it");
    });
    const std::string first = shrunk(self, self.comm);
    other.join();
    self.say(first);
    return shrunk(self, self.comm);
  });
  EXPECT_EQ(ranks.said(0), "shrinks");
  pass_ms(300);
  ranks.go_on(0);
  const std::string said = ranks.said(0);
  EXPECT_THAT(said, testing::StartsWith("SK_ERR_ABORTED: "));
  EXPECT_THAT(said, HasSubstr("enough of it"));
  ranks.go_on(1);
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
}

std::string with_what_was_asked_for(ForkedRank& self) {
  static std::atomic<int> looks = 0;
  sk_comm_config config{};
  config.struct_size = sizeof config;
  config.name = "configured";
  config.workers = 3;
  config.flags = SK_COMM_PUT_ONLY;
  config.symmetric_bytes_max = 1 << 20;
  config.timeout_ms = 1000;
  config.waiting = [](void*) { ++looks; };
  sk_comm *comm = nullptr, *left = nullptr;
  if (const sk_status status = sk_comm_create(self.context, &config, &comm); status != SK_OK)
    return failed(status);
  if (const sk_status status = sk_comm_shrink(comm, 60'000, &left); status != SK_OK)
    return failed(status);
  sk_comm_info info{};
  info.struct_size = sizeof info;
  if (const sk_status status = sk_comm_query(left, &info); status != SK_OK) return failed(status);
  void* memory = nullptr;
  const sk_status much = sk_alloc(left, 64 << 20, &memory), little = sk_alloc(left, 4096, &memory);
  std::string said = std::to_string(info.workers) + (info.mapped != 0 ? " mapped " : " put only ") +
                     sk_status_name(much) + " " + sk_status_name(little);
  if (self.number == 1) return said;  // And so comes to no barrier.
  looks = 0;
  const sk_status late = sk_barrier(left, nullptr);
  return said + " " + sk_status_name(late) + (looks > 0 ? " looked" : "");
}

TEST_P(ShrinkAlive, AllElseIsAsItWasAskedFor) {
  ForkedRanks ranks(2, GetParam(), with_what_was_asked_for);
  const std::string both = "3 put only SK_ERR_OUT_OF_RANGE SK_OK";
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre(both + " SK_ERR_TIMEOUT looked", both));
}

size_t descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

int64_t kilobytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t value = 0;
    if (word == "VmRSS:" && file >> value) return value;
  }
  return -1;
}

size_t mappings() {
  size_t lines = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

TEST_P(ShrinkAlive, NothingIsLeftBehind) {
  ForkedRanks ranks(2, GetParam(), [](ForkedRank& self) {
    sk_comm* comm = self.comm;
    const auto again = [&](int times) {
      for (int i = 0; i < times; ++i) {
        sk_comm* left = nullptr;
        if (sk_comm_shrink(comm, 0, &left) != SK_OK || sk_comm_free(comm) != SK_OK) return false;
        comm = left;
      }
      return true;
    };
    if (!again(10)) return failed(SK_ERR_INTERNAL);
    const size_t held = descriptors(), mapped = mappings();
    const int64_t kb = kilobytes();
    if (!again(50)) return failed(SK_ERR_INTERNAL);
    if (descriptors() > held) return "descriptors: " + std::to_string(descriptors() - held);
    if (mappings() > mapped + 5) return "mappings: " + std::to_string(mappings() - mapped);
    if (kilobytes() > kb + 2000) return "KB: " + std::to_string(kilobytes() - kb);
    return who_is_there(self, comm);
  });
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
}

}  // namespace
}  // namespace sk::testing_ops
