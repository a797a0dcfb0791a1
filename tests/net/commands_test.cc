// What the emulator is told: lines in, changes of the hub and answers out.
#include "tests/net/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace sk::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Commands : public testing::Test {
 protected:
  std::string say(const std::string& line) { return obey(hub_, names_, line); }

  // Which of the three hosts' directions carry a packet now, as "ab" for a to b.
  std::string open() {
    std::string out;
    for (int i = 0; i < 9; ++i) {
      const int from = i / 3;
      const int to = i % 3;
      if (from == to) continue;
      hub_.send(from, to, {}, 0);
      if (hub_.take(0)) out += names_[size_t(from)] + names_[size_t(to)] + " ";
    }
    return out;
  }

  std::array<std::string, 3> names_ = {"a", "b", "c"};
  Hub hub_{3, /*seed=*/1};
};

TEST_F(Commands, CutAndRestoreOneWayOrBoth) {
  EXPECT_EQ(open(), "ab ac ba bc ca cb ");
  EXPECT_EQ(say("cut a b"), "ok\n");
  EXPECT_EQ(open(), "ac ba bc ca cb ");
  EXPECT_EQ(say("cut c a both"), "ok\n");
  EXPECT_EQ(open(), "ba bc cb ");
  EXPECT_EQ(say("restore a b"), "ok\n");
  EXPECT_EQ(open(), "ab ba bc cb ");
  EXPECT_EQ(say("cut * b"), "ok\n");
  EXPECT_EQ(open(), "ba bc ");
  EXPECT_EQ(say("restore * *"), "ok\n");
  EXPECT_EQ(open(), "ab ac ba bc ca cb ");
}

TEST_F(Commands, SetChangesWhatItNames) {
  EXPECT_EQ(say("set a b loss 0.25 delay_us 500"), "ok\n");
  EXPECT_EQ(hub_.settings(0, 1).loss, 0.25);
  EXPECT_EQ(hub_.settings(0, 1).delay_us, 500);
  EXPECT_EQ(hub_.settings(1, 0).loss, 0);
  EXPECT_EQ(say("set a b both loss 1"), "ok\n");
  EXPECT_EQ(hub_.settings(0, 1).delay_us, 500);
  EXPECT_EQ(hub_.settings(1, 0).loss, 1);
  EXPECT_EQ(hub_.settings(1, 2).loss, 0);
}

TEST_F(Commands, EverySettingHasItsName) {
  EXPECT_EQ(say("set a b loss 0.1 duplicate 0.2 reorder 0.3 corrupt 0.4 corrupt_unseen 0.5 "
                "delay_us 6 jitter_us 7 reorder_us 8 rate_kbit 9 queue_packets 10 packet_bytes 11"),
            "ok\n");
  const Settings& set = hub_.settings(0, 1);
  EXPECT_EQ(set.loss, 0.1);
  EXPECT_EQ(set.duplicate, 0.2);
  EXPECT_EQ(set.reorder, 0.3);
  EXPECT_EQ(set.corrupt, 0.4);
  EXPECT_EQ(set.corrupt_unseen, 0.5);
  EXPECT_EQ(set.delay_us, 6);
  EXPECT_EQ(set.jitter_us, 7);
  EXPECT_EQ(set.reorder_us, 8);
  EXPECT_EQ(set.rate_kbit, 9);
  EXPECT_EQ(set.queue_packets, 10);
  EXPECT_EQ(set.packet_bytes, 11);
}

TEST_F(Commands, WhatIsRefusedChangesNothingAndSaysWhatIsAllowed) {
  EXPECT_EQ(say("set a b delay_us 5 loss 1.5"),
            "error: loss is \"1.5\"; it is a share of packets, 0 to 1\n");
  EXPECT_EQ(hub_.settings(0, 1).delay_us, 0);
  EXPECT_THAT(say("set a b loss nan"), StartsWith("error: loss is \"nan\""));
  EXPECT_EQ(say("set a b delay_us -1"),
            "error: delay_us is \"-1\"; it is a whole number, 0 to 60000000\n");
  EXPECT_THAT(say("set a b queue_packets 0"), HasSubstr("1 to 1000000"));
  EXPECT_THAT(say("set a b delay_us 5x"), HasSubstr("\"5x\""));
  EXPECT_EQ(say("set a b speed 5"), "error: there is no setting \"speed\"\n");
  EXPECT_THAT(say("set a b loss"), HasSubstr("each with a value"));
  EXPECT_EQ(say("cut a d"), "error: \"d\" is no host; there are a, b, c\n");
  EXPECT_EQ(say("cut a a"), "error: a host has no link to itself\n");
  EXPECT_EQ(say("cut a"), "error: two hosts were expected, FROM and TO\n");
  EXPECT_THAT(say("cut a b now"), HasSubstr("\"now\""));
  EXPECT_EQ(say("frob a"), "error: \"frob a\" is none of cut, restore, set and stats\n");
  EXPECT_THAT(say(""), StartsWith("error: "));
  EXPECT_EQ(open(), "ab ac ba bc ca cb ");
}

TEST_F(Commands, StatsHasALineForEachDirection) {
  hub_.send(0, 1, {}, 0);
  hub_.cut(2, 0);
  hub_.send(2, 0, {}, 0);
  ASSERT_TRUE(hub_.take(0).has_value());
  const std::string text = say("stats");
  EXPECT_THAT(text, StartsWith("a b sent 1 delivered 1 lost 0 duplicated 0 late 0 corrupted 0 "
                               "corrupted_unseen 0 cut 0 overflowed 0 refused 0\na c sent 0 "));
  EXPECT_THAT(text, HasSubstr("\nc a sent 1 delivered 0 "));
  EXPECT_THAT(text, testing::EndsWith("\nok\n"));
}

}  // namespace
}  // namespace sk::net
