// Which of two threads is woken by what comes over a link.
#include "lib/control/host/shared_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "transport/local/link.h"

namespace sk::control {
namespace {

constexpr int kLongMs = 20'000;
constexpr int kBrieflyMs = 100;

class SharedWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = local::socket_pair();
    auto pipe = local::pipe_pair();
    auto wakeup = local::make_wakeup();
    ASSERT_TRUE(pair.ok() && pipe.ok() && wakeup.ok());
    link_ = std::move(pair->first);
    peer_ = std::move(pair->second);
    capture_ = std::move(pipe->first);
    captured_ = std::move(pipe->second);
    wakeup_ = std::move(*wakeup);
    auto watch = SharedWatch::make(link_.get(), wakeup_.get(), capture_.get(), -1);
    ASSERT_TRUE(watch.ok()) << watch.status().message();
    watch_ = std::move(*watch);
  }

  // Whether the I/O thread's side is woken within the time.
  static bool polled(int fd, int timeout_ms) {
    pollfd entry{fd, POLLIN, 0};
    return poll(&entry, 1, timeout_ms) == 1;
  }

  // Most often the other threads are inside their waits after it; what is expected holds anyway.
  static void let_wait() {
    constexpr std::chrono::milliseconds kTime{20};
    std::this_thread::sleep_for(kTime);  // tidy: allow sleep: a thread inside poll() tells nobody
  }

  void arrive() { ASSERT_EQ(send(peer_.get(), "x", 1, 0), 1); }
  void take() {
    char byte = 0;
    ASSERT_EQ(recv(link_.get(), &byte, 1, MSG_DONTWAIT), 1);
  }

  local::Fd link_, peer_, capture_, captured_, wakeup_;
  SharedWatch watch_;
};

TEST_F(SharedWatchTest, WhatComesWhileTheMainThreadWaitsIsItsAlone) {
  for (int time = 0; time < 20; ++time) {
    std::atomic<bool> polls{false}, was_woken{false};
    std::thread io([&] {
      polls = true;
      was_woken = polled(watch_.link(), kBrieflyMs);
    });
    while (!polls) std::this_thread::yield();
    std::thread controller([&] {
      let_wait();
      arrive();
    });
    const auto since = std::chrono::steady_clock::now();
    watch_.wait(kLongMs);
    EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::milliseconds(kLongMs));
    take();
    controller.join();
    io.join();
    EXPECT_FALSE(was_woken);
  }
}

TEST_F(SharedWatchTest, WhatComesWhileItWorksIsTheIoThreads) {
  std::atomic<bool> was_woken{false};
  std::thread io([&] { was_woken = polled(watch_.link(), kLongMs); });
  let_wait();
  arrive();
  io.join();
  EXPECT_TRUE(was_woken);
}

TEST_F(SharedWatchTest, WhatCameBeforeAnyoneWaitedIsFoundByBoth) {
  arrive();
  EXPECT_TRUE(polled(watch_.link(), kLongMs));
  const SharedWatch::News news = watch_.wait(kLongMs);
  EXPECT_FALSE(news.signal || news.wakeup || news.capture);
}

TEST_F(SharedWatchTest, TheEndOfTheLinkWakesBoth) {
  std::atomic<bool> was_woken{false};
  std::thread io([&] { was_woken = polled(watch_.link(), kLongMs); });
  std::thread controller([&] {
    let_wait();
    peer_.reset();
  });
  watch_.wait(kLongMs);
  io.join();
  controller.join();
  EXPECT_TRUE(was_woken);
}

TEST_F(SharedWatchTest, CapturedBytesAreToldOfOnce) {
  ASSERT_EQ(write(captured_.get(), "x", 1), 1);
  EXPECT_TRUE(watch_.wait(kLongMs).capture);
  EXPECT_FALSE(watch_.wait(0).capture);  // The I/O thread has not read them yet.
  ASSERT_EQ(write(captured_.get(), "y", 1), 1);
  EXPECT_TRUE(watch_.wait(kLongMs).capture);
}

TEST_F(SharedWatchTest, CapturedBytesThatAreTakenAlongAreNoNews) {
  ASSERT_EQ(write(captured_.get(), "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(capture_.get(), &byte, 1), 1);
  EXPECT_FALSE(watch_.wait(0).capture);
}

TEST_F(SharedWatchTest, AWakeupIsToldOfUntilItIsCleared) {
  local::wake(wakeup_.get());
  EXPECT_TRUE(watch_.wait(kLongMs).wakeup);
  EXPECT_TRUE(watch_.wait(0).wakeup);
  local::clear_wakeup(wakeup_.get());
  EXPECT_FALSE(watch_.wait(0).wakeup);
}

TEST_F(SharedWatchTest, TheTimerIsForWhoeverStaysAway) {
  watch_.leave(1'000'000'000);
  watch_.come_back();
  EXPECT_FALSE(polled(watch_.timer(), 1'200));
  watch_.leave(1'000'000);
  EXPECT_TRUE(polled(watch_.timer(), kLongMs));
  watch_.clear_timer();
  EXPECT_FALSE(polled(watch_.timer(), 0));
}

}  // namespace
}  // namespace sk::control
