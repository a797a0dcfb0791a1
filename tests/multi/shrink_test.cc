// Those that are left of a communicator go on in another one: whoever was lost, whenever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/multi/forked_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What is left of `comm`, or of its own: who is there, as the last of it.
std::string shrunk(const ForkedRank& self, sk_comm* comm, int64_t timeout_ms = 0,
                   sk_comm** out = nullptr) {
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

// Sums until that fails, as it does when a rank is lost.
std::string sum_until_lost(sk_comm* comm) {
  std::vector<float> x(50'000, 1.0f), y(x.size());
  sk_status status = SK_OK;
  while (status == SK_OK)
    status = sk_allreduce(comm, x.data(), y.data(), int64_t(x.size()), SK_F32, SK_SUM, nullptr);
  return status == SK_ERR_PEER_LOST ? "" : failed(status);
}

class Shrink : public testing::TestWithParam<Meets> {};
INSTANTIATE_TEST_SUITE_P(Meets, Shrink, testing::Values(Meets::kHere, Meets::kAtAnAddress));

// Of four, killed in the middle of sums. The launcher's rank 0 is one like the others.
TEST_P(Shrink, TheRestOfFourGoOnWithoutOne) {
  for (const int victim : {0, 2, 3}) {
    ForkedRanks ranks(4, GetParam(), [](ForkedRank& self) {
      self.say("connected");
      const std::string other = sum_until_lost(self.comm);
      return other.empty() ? shrunk(self, self.comm) : other;
    });
    ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
    pass_ms(20);
    ranks.kill(victim);
    const int all = 15 - (1 << victim);
    int number = 0;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.said(rank),
                "rank " + std::to_string(number++) + " of 3: " + std::to_string(all));
    }
  }
}

TEST_P(Shrink, TwoAreLostAtOnce) {
  ForkedRanks ranks(4, GetParam(), [](ForkedRank& self) {
    self.say("connected");
    const std::string other = sum_until_lost(self.comm);
    return other.empty() ? shrunk(self, self.comm) : other;
  });
  ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
  ranks.kill(3);
  ranks.kill(1);
  EXPECT_THAT(ranks.all_said({0, 2}), ElementsAre("rank 0 of 2: 5", "rank 1 of 2: 5"));
}

TEST_P(Shrink, TheLastOneGoesOnAlone) {
  ForkedRanks ranks(2, GetParam(), [](ForkedRank& self) {
    self.say("connected");
    const std::string other = sum_until_lost(self.comm);
    return other.empty() ? shrunk(self, self.comm) : other;
  });
  ASSERT_THAT(ranks.all_said({0, 1}), testing::Each("connected"));
  ranks.kill(0);
  EXPECT_EQ(ranks.said(1), "rank 0 of 1: 2");
}

std::string shrink_when_told(ForkedRank& self) {
  self.say("connected");
  self.wait();
  self.say("shrinks");
  return shrunk(self, self.comm);
}

// Whoever comes first is where the others meet: it dies while they wait there.
TEST_P(Shrink, TheFirstToComeDiesWhileOthersWait) {
  ForkedRanks ranks(4, GetParam(), shrink_when_told);
  ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
  for (const int rank : {2, 0, 1}) {
    ranks.go_on(rank);
    EXPECT_EQ(ranks.said(rank), "shrinks");
    pass_ms(300);
  }
  ranks.kill(2);
  pass_ms(300);
  ranks.go_on(3);
  EXPECT_EQ(ranks.said(3), "shrinks");
  EXPECT_THAT(ranks.all_said({0, 1, 3}),
              ElementsAre("rank 0 of 3: 11", "rank 1 of 3: 11", "rank 2 of 3: 11"));
}

TEST_P(Shrink, OneThatWaitsWithOthersDies) {
  ForkedRanks ranks(4, GetParam(), shrink_when_told);
  ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
  for (const int rank : {0, 1, 2}) {
    ranks.go_on(rank);
    EXPECT_EQ(ranks.said(rank), "shrinks");
    pass_ms(300);
  }
  ranks.kill(1);
  pass_ms(300);
  ranks.go_on(3);
  EXPECT_EQ(ranks.said(3), "shrinks");
  EXPECT_THAT(ranks.all_said({0, 2, 3}),
              ElementsAre("rank 0 of 3: 13", "rank 1 of 3: 13", "rank 2 of 3: 13"));
}

// One that has not come dies, while all others wait for it.
TEST_P(Shrink, OneThatIsWaitedForDies) {
  ForkedRanks ranks(3, GetParam(), shrink_when_told);
  ASSERT_THAT(ranks.all_said({0, 1, 2}), testing::Each("connected"));
  for (const int rank : {0, 1}) {
    ranks.go_on(rank);
    EXPECT_EQ(ranks.said(rank), "shrinks");
  }
  pass_ms(300);
  ranks.kill(2);
  EXPECT_THAT(ranks.all_said({0, 1}), ElementsAre("rank 0 of 2: 3", "rank 1 of 2: 3"));
}

// At any moment of a shrink: while they meet, connect, or have just done so, and some have it.
TEST_P(Shrink, OneDiesAtAnyMoment) {
  for (int moment = 0; moment < 12; ++moment) {
    ForkedRanks ranks(4, GetParam(), [](ForkedRank& self) {
      self.say("connected");
      self.wait();
      sk_comm* comm = self.comm;
      while (true) {
        sk_comm* left = nullptr;
        if (const sk_status status = sk_comm_shrink(comm, 0, &left); status != SK_OK)
          return failed(status);
        comm = left;
        std::string who = who_is_there(self, comm);
        if (who.find("of 3: ") != std::string::npos) return who;
        if (who.find("of 4: ") == std::string::npos && who.find("SK_ERR_PEER_LOST") != 0)
          return who;
        if (who.find("of 4: ") != std::string::npos) who = sum_until_lost(comm);
      }
    });
    ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
    for (int rank = 0; rank < 4; ++rank) ranks.go_on(rank);
    pass_ms(moment * moment / 2);
    const int victim = moment % 4;
    ranks.kill(victim);
    const std::string all = std::to_string(15 - (1 << victim));
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_THAT(ranks.said(rank), HasSubstr(" of 3: " + all)) << "moment " << moment;
    }
  }
}

TEST_P(Shrink, WhatIsLeftIsShrunkAgain) {
  ForkedRanks ranks(4, GetParam(), [](ForkedRank& self) {
    sk_comm* comm = self.comm;
    self.say("connected");
    while (true) {
      const std::string other = sum_until_lost(comm);
      if (!other.empty()) return other;
      sk_comm* left = nullptr;
      self.say(shrunk(self, comm, 0, &left));
      if (sk_comm_free(comm) != SK_OK) return failed(SK_ERR_INTERNAL);
      comm = left;
    }
  });
  ASSERT_THAT(ranks.all_said({0, 1, 2, 3}), testing::Each("connected"));
  ranks.kill(1);
  EXPECT_THAT(ranks.all_said({0, 2, 3}),
              ElementsAre("rank 0 of 3: 13", "rank 1 of 3: 13", "rank 2 of 3: 13"));
  ranks.kill(0);
  EXPECT_THAT(ranks.all_said({2, 3}), ElementsAre("rank 0 of 2: 12", "rank 1 of 2: 12"));
  ranks.kill(2);
  EXPECT_EQ(ranks.said(3), "rank 0 of 1: 8");
}

TEST_P(Shrink, WhereNobodyIsLostItIsAnotherOfTheSameRanks) {
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
TEST_P(Shrink, TwoOfOneNameDoNotMix) {
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

// As where who let them meet dies in their last step: one has nothing and tries again, the others
// have a communicator that is over.
TEST_P(Shrink, RanksWhoseLastStepEndedDifferentlyMeetAgain) {
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

TEST_P(Shrink, OneThatIsAliveAndDoesNotComeIsNamed) {
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

TEST_P(Shrink, TheTimeoutIsTheCommunicatorsOwnWhereNoneIsGiven) {
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

TEST_P(Shrink, OneThatHasFreedItsOwnIsNotWaitedFor) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    if (self.number != 1) return shrunk(self, self.comm);
    return std::string(sk_comm_free(self.comm) == SK_OK ? "freed" : "not freed");
  });
  EXPECT_EQ(ranks.said(1), "freed");
  EXPECT_THAT(ranks.all_said({0, 2}), ElementsAre("rank 0 of 2: 5", "rank 1 of 2: 5"));
}

// One that is aborted has lost nobody.
TEST_P(Shrink, RanksThatAbortedGoOn) {
  ForkedRanks ranks(3, GetParam(), [](ForkedRank& self) {
    if (self.number == 1 && sk_comm_abort(self.comm, "enough") != SK_OK)
      return failed(SK_ERR_INTERNAL);
    return shrunk(self, self.comm);
  });
  EXPECT_THAT(ranks.all_said({0, 1, 2}),
              ElementsAre("rank 0 of 3: 7", "rank 1 of 3: 7", "rank 2 of 3: 7"));
}

TEST_P(Shrink, AnAbortMeanwhileEndsItOnThisRank) {
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

TEST_P(Shrink, NothingIsLeftBehind) {
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
