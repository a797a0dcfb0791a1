#include "lib/control/rank_set.h"

#include <gtest/gtest.h>

#include <random>

namespace sk::control {
namespace {

TEST(RankSet, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_ranks("0-3,5", 8).value(), (RankSet{0, 1, 2, 3, 5}));
  EXPECT_EQ(parse_ranks(" 5 , 1 - 2,1", 8).value(), (RankSet{1, 2, 5}));
  EXPECT_EQ(parse_ranks("", 3).value(), (RankSet{0, 1, 2}));
  EXPECT_EQ(parse_ranks("7", 8).value(), (RankSet{7}));
  EXPECT_EQ(parse_ranks("0-6:2", 8).value(), (RankSet{0, 2, 4, 6}));
  EXPECT_EQ(parse_ranks("1-7 : 3,0", 8).value(), (RankSet{0, 1, 4, 7}));
  EXPECT_EQ(parse_ranks("!0", 4).value(), (RankSet{1, 2, 3}));
  EXPECT_EQ(parse_ranks(" ! 0-4:2, 1", 6).value(), (RankSet{3, 5}));
}

TEST(RankSet, RefusesTheRestWithASentence) {
  for (const char* text :
       {"x",  "1,", ",",   "1-",  "-1",   "3-1",   "1--2", "1.5",   "0x1",     "+1",   "1 2", "!",
        "! ", "0!", "!!0", "1:2", "0-4:", "0-4:0", ":2",   "0:2-4", "0-4:2:2", "!0-7", "!0,"}) {
    const auto ranks = parse_ranks(text, 8);
    ASSERT_FALSE(ranks.ok()) << text;
    EXPECT_EQ(ranks.status().code(), SK_ERR_INVALID_ARGUMENT) << text;
  }
  for (const char* text : {"8", "0-8", "4294967295", "99999999999999999999", "0-8:3", "!8"}) {
    const auto ranks = parse_ranks(text, 8);
    ASSERT_FALSE(ranks.ok()) << text;
    EXPECT_EQ(ranks.status().code(), SK_ERR_OUT_OF_RANGE) << text;
    EXPECT_NE(ranks.status().message().find("ranks 0 to 7"), std::string::npos);
  }
}

TEST(RankSet, SaysWhatIsWrongWithCommas) {
  for (const char* text : {"1,2,", ",1", "1,,2"})
    EXPECT_NE(parse_ranks(text, 8).status().message().find("stray comma"), std::string::npos);
  const std::string words = parse_ranks("0 2", 8).status().message();
  EXPECT_NE(words.find("\"0 2\" needs commas"), std::string::npos) << words;
}

TEST(RankSet, TextAndBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const uint32_t world = 1 + random() % 40;
    RankSet ranks;
    for (uint32_t rank = 0; rank < world; ++rank)
      if (random() % 3 != 0) ranks.push_back(rank);
    if (ranks.empty()) ranks.push_back(world - 1);
    const std::string text = format_ranks(ranks);
    EXPECT_EQ(parse_ranks(text, world).value(), ranks) << text;
    const std::string brief = brief_ranks(ranks, world);
    EXPECT_EQ(parse_ranks(brief, world).value(), ranks) << brief;
    EXPECT_LE(brief.size(), text.size());
  }
  EXPECT_EQ(format_ranks({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
  EXPECT_EQ(brief_ranks({0, 2, 4, 6, 8}, 16), "0-8:2");
  EXPECT_EQ(brief_ranks({1, 2, 4, 6, 8, 10, 12, 13}, 16), "1,2,4-12:2,13");
  EXPECT_EQ(brief_ranks({0, 2, 4}, 16), "0,2,4");
  EXPECT_EQ(brief_ranks({1, 2, 3, 4, 5, 6, 7}, 8), "!0");
  EXPECT_EQ(brief_ranks({1, 2, 3}, 4), "1-3");
  EXPECT_EQ(brief_ranks(all_ranks(16), 16), "0-15");
  EXPECT_EQ(name_ranks({4}), "rank 4");
  EXPECT_EQ(name_ranks({4, 5}), "ranks 4,5");
}

}  // namespace
}  // namespace sk::control
