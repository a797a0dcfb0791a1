// Those that are left of a communicator go on in another one: whoever was lost, whenever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/multi/forked_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
      std::string other = sum_until_lost(comm);
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

}  // namespace
}  // namespace sk::testing_ops
