#include "lib/control/host/facts.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>

namespace sk::control {
namespace {

// Runs `work` in a thread of that name; what the kernel says of it, once that is `wanted`. `end`
// makes `work` return.
char state_of(const char* name, char wanted, const std::function<void()>& work,
              const std::function<void()>& end) {
  std::latch named(1);
  std::thread thread([&] {
    pthread_setname_np(pthread_self(), name);
    named.count_down();
    work();
  });
  named.wait();
  char state = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((state = thread_state(getpid(), name)) != wanted &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  end();
  thread.join();
  return state;
}

TEST(Facts, AThreadThatWouldRunIsToldFromOneThatWaits) {
  std::atomic<bool> stop{false};
  const auto spin = [&] {
    while (!stop) continue;
  };
  EXPECT_EQ(state_of("busy) R (x", 'R', spin, [&] { stop = true; }), 'R');
  std::latch released(1);
  EXPECT_EQ(state_of(
                "waits", 'S', [&] { released.wait(); }, [&] { released.count_down(); }),
            'S');
}

TEST(Facts, AThreadThatIsNotThereHasNoState) {
  EXPECT_EQ(thread_state(getpid(), "no such thread"), 0);
  EXPECT_EQ(thread_state(0, "sk-worker-io"), 0);
}

}  // namespace
}  // namespace sk::control
