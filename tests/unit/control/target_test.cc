#include "lib/control/target.h"

#include <gtest/gtest.h>

namespace sk::control {
namespace {

const Ranks kRanks{4, {1, 3}, "gpu1.example.org"};

TEST(Target, WordsMeanWhatIsSoNow) {
  const RankSet all = {0, 1, 2, 3};
  for (const char* text : {"", " ", "all", " all ", "local", "host:gpu1", "host:gpu1.example.org"})
    EXPECT_EQ(choose_ranks(text, kRanks).value(), all) << text;
  EXPECT_EQ(choose_ranks("alive", kRanks).value(), (RankSet{1, 3}));
  EXPECT_EQ(choose_ranks("one", kRanks).value(), (RankSet{1}));
  EXPECT_EQ(choose_ranks("0,2-3", kRanks).value(), (RankSet{0, 2, 3}));
}

TEST(Target, NothingIsRunOnNoRank) {
  for (const char* text : {"alive", "one"}) {
    const auto ranks = choose_ranks(text, {4, {}, "here"});
    EXPECT_EQ(ranks.status().code(), SK_ERR_PEER_LOST) << text;
    EXPECT_NE(ranks.status().message().find("no rank is alive"), std::string::npos) << text;
  }
}

TEST(Target, ASentenceForTheRest) {
  for (const char* text :
       {"alive,1", "host:gpu2", "host:", "host:gpu", "ALIVE", "everybody", "1;2"})
    EXPECT_EQ(choose_ranks(text, kRanks).status().code(), SK_ERR_INVALID_ARGUMENT) << text;
  EXPECT_NE(choose_ranks("host:gpu2", kRanks).status().message().find("gpu1.example.org"),
            std::string::npos);
  EXPECT_EQ(choose_ranks("4", kRanks).status().code(), SK_ERR_OUT_OF_RANGE);
}

TEST(Target, WhatCanBeToldBeforehand) {
  EXPECT_TRUE(check_ranks("alive", 4).ok());
  EXPECT_TRUE(check_ranks("host:anywhere", 4).ok());  // Who knows better refuses it later.
  EXPECT_FALSE(check_ranks("4", 4).ok());
  // The controller would end over it.
  EXPECT_EQ(check_ranks("0" + std::string(65'536, ' '), 4).code(), SK_ERR_OUT_OF_RANGE);
  EXPECT_FALSE(check_ranks("x", 4).ok());
}

}  // namespace
}  // namespace sk::control
