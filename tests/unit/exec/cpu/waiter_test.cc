// Waits: what is waited for may do something, and is not asked again once it has said that it is
// there.
#include "lib/exec/cpu/waiter.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/exec/cpu/long_wait.h"
#include "tests/support/mem_bootstrap.h"
#include "transport/shm/shm.h"

namespace sk::cpu {
namespace {

TEST(Waiter, AsksNoMoreOnceItIsReady) {
  testing_support::MeetingPtr meeting = testing_support::make_meeting();
  ASSERT_NE(meeting, nullptr);
  SegmentLayout layout;
  layout.workspace_bytes_max = 4096;
  testing_support::MemBootstrap bootstrap(*meeting, 0, 1);
  Result<std::unique_ptr<Endpoint>> endpoint = connect_shm(bootstrap, layout, {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
  for (const bool drives : {false, true}) {
    // At each of its looks in turn, while it spins, yields and sleeps.
    for (uint32_t at = 1; at < 60; ++at) {
      uint32_t asked = 0, behind = 0;
      const auto ready = [&] {
        behind += asked >= at ? 1 : 0;
        return ++asked == at;
      };
      Waiter waiter(**endpoint, 4, drives);
      ASSERT_TRUE(waiter.wait(ready, 20'000'000'000).ok());
      EXPECT_EQ(asked, at);
      EXPECT_EQ(behind, 0u);
    }
  }
}

constexpr int64_t kMs = 1'000'000;

TEST(Allowance, IsCountedByTheClock) {
  Allowance late(100 * kMs, 50 * kMs);
  late.spend(now_ns() - 10 * kMs);
  EXPECT_FALSE(late.spent());
  Allowance busy(100 * kMs, 50 * kMs);
  busy.spend(now_ns() - 101 * kMs);  // One slice, of which the machine had made much.
  EXPECT_TRUE(busy.spent());
}

TEST(Allowance, CountsWhatLiesBetweenSlices) {
  Allowance allowance(40 * kMs, 50 * kMs);
  const int64_t first = now_ns();
  allowance.spend(first);
  while (now_ns() < first + 41 * kMs) pause();
  allowance.spend(now_ns());
  EXPECT_TRUE(allowance.spent());
}

TEST(Allowance, BeginsAnewWhereNoPeerIsAwaited) {
  Allowance allowance(100 * kMs, 50 * kMs);
  allowance.spend(now_ns() - 200 * kMs);
  allowance.renew();
  EXPECT_FALSE(allowance.spent());
  allowance.spend(now_ns());
  EXPECT_FALSE(allowance.spent());
}

// As behind SIGSTOP and SIGCONT of all ranks.
TEST(Allowance, DoesNotCountWhatThisProcessStoodStill) {
  Allowance allowance(10'000 * kMs, 50 * kMs);
  allowance.spend(now_ns() - 3'600'000 * kMs);
  EXPECT_FALSE(allowance.spent());
}

TEST(Allowance, HasSeveralSlicesHoweverShortItIs) {
  EXPECT_EQ(Allowance(300'000 * kMs, 50 * kMs).slice(), 50 * kMs);
  EXPECT_EQ(Allowance(20 * kMs, 50 * kMs).slice(), 5 * kMs);
}

// Not at once, not all the time, not again from where it was once nobody was waited for, and not
// more than a call may lose by it: nothing.
TEST(LongWait, IsToldAfterAWhileAndThenNowAndThen) {
  std::vector<std::string> told;
  StillWaiting listener{[&](const std::string& text) { told.push_back(text); }, 20'000'000};
  LongWait wait(listener);
  const auto look_until = [&](size_t count) {
    while (told.size() < count)
      wait.look([](int64_t waited_ns) { return std::to_string(waited_ns); });
  };
  const int64_t began = now_ns();
  look_until(1);
  EXPECT_GE(now_ns() - began, 20'000'000);
  EXPECT_GE(std::stoll(told[0]), 20'000'000);
  look_until(2);
  EXPECT_GE(std::stoll(told[1]) - std::stoll(told[0]), 120'000'000);
  wait.renew();
  const int64_t renewed = now_ns();
  look_until(3);
  EXPECT_GE(now_ns() - renewed, 20'000'000);
  EXPECT_LE(std::stoll(told[2]), now_ns() - renewed);
}

TEST(LongWait, EndsNothingWhereItsSentenceCannotBeMade) {
  int told = 0;
  const StillWaiting listener{[&](const std::string&) { ++told; }, 0};
  LongWait wait(listener);
  wait.look([](int64_t) -> std::string { throw std::bad_alloc(); });
  EXPECT_EQ(told, 0);
  const StillWaiting nobody;
  LongWait untold(nobody);
  untold.look([](int64_t) -> std::string { throw std::logic_error("asked"); });
}

}  // namespace
}  // namespace sk::cpu
