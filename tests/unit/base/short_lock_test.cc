#include "lib/base/short_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/until.h"

namespace sk {
namespace {

// 'R' runs or wants to, 'S' sleeps.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t behind = line.rfind(") ");  // Of the name, which may have anything.
  return behind == std::string::npos ? '?' : line[behind + 2];
}

TEST(ShortLock, OneAtATimeHasIt) {
  ShortLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kTurns = 50'000;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        const std::scoped_lock locked(lock);
        ++count;
        if (i % 1'000 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTurns);
}

// One that looked on, or yielded, would keep a holder of lower priority from its core.
TEST(ShortLock, WhoeverFindsItTakenSleeps) {
  ShortLock lock;
  std::atomic<pid_t> waiter{0};
  std::thread other;
  {
    const std::scoped_lock locked(lock);
    other = std::thread([&] {
      waiter = gettid();
      const std::scoped_lock mine(lock);
    });
    const auto sleeps = [&] { return waiter != 0 && state_of(waiter) == 'S'; };
    EXPECT_TRUE(testing_support::until(sleeps));
  }
  other.join();
}

}  // namespace
}  // namespace sk
