// Who will not come: the thread of the cells is told, in the order of the causes.
#include "transport/absence.h"

#include <gtest/gtest.h>

namespace sk {
namespace {

TEST(Absence, TheFirstGroupThatIsLackingIsNamed) {
  Absence absence(std::this_thread::get_id());
  EXPECT_FALSE(absence.among("call", {0, 1, 2}));
  absence.set({{{2, 5}, "failed"}, {{0, 1, 3}, "ended"}});
  EXPECT_FALSE(absence.among("call", {}));
  EXPECT_FALSE(absence.among("call", {4, 6}));  // Late, that is all.
  const auto failed = absence.among("call", {0, 1, 4, 5});
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->ranks, std::vector<uint32_t>{5});
  EXPECT_EQ(failed->why, "failed");
  const auto ended = absence.among("call", {1, 3, 4});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ranks, (std::vector<uint32_t>{1, 3}));
  absence.set({});
  EXPECT_FALSE(absence.among("call", {1, 3, 4}));
}

TEST(Absence, IsNoBusinessOfOtherThreads) {
  Absence absence(std::this_thread::get_id());
  absence.set({{{2}, "failed"}});
  bool told = true;
  std::thread other([&] { told = absence.among("call", {2}).has_value(); });
  other.join();
  EXPECT_FALSE(told);
}

TEST(Absence, TellsForWhomTheThreadOfTheCellsWaits) {
  Absence absence(std::this_thread::get_id());
  EXPECT_EQ(absence.waiting().call, "");
  EXPECT_FALSE(absence.among("barrier()", {1, 3}));
  EXPECT_EQ(absence.waiting().call, "barrier()");
  EXPECT_EQ(absence.waiting().ranks, (std::vector<uint32_t>{1, 3}));
  EXPECT_FALSE(absence.among("barrier()", {}));  // All have come.
  EXPECT_EQ(absence.waiting().call, "");
}

TEST(Absence, WhatAThreadDidOnceIsOverWhenItHasBeenTold) {
  Absence absence(std::this_thread::get_id());
  absence.note_call(std::this_thread::get_id());
  EXPECT_FALSE(absence.take_called_elsewhere());
  std::thread other([&] { absence.note_call(std::this_thread::get_id()); });
  other.join();
  EXPECT_TRUE(absence.take_called_elsewhere());
  EXPECT_FALSE(absence.take_called_elsewhere());
}

}  // namespace
}  // namespace sk
