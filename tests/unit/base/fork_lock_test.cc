#include "lib/base/fork_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace sk {
namespace {

// What its lock guards: two numbers that are alike, and how often children forgot them.
int one = 0, other = 0, forgotten = 0;
ForkLock first([] { ++forgotten; });
ForkLock second;

// A thread that keeps both locks all the time, but for moments, and has the numbers apart
// meanwhile.
class Holders {
 public:
  Holders() : thread_([this] { hold(); }) {
    while (!begun_) std::this_thread::yield();
  }
  ~Holders() {
    stop_ = true;
    thread_.join();
  }

 private:
  void hold() {
    while (!stop_) {
      const std::scoped_lock outer(first);
      const std::scoped_lock inner(second);
      ++one;
      begun_ = true;
      std::this_thread::yield();
      ++other;
    }
  }
  std::atomic<bool> stop_{false}, begun_{false};
  std::thread thread_;
};

TEST(ForkLock, AChildFindsItFreeAndWhatItGuardsWhole) {
  for (int round = 0; round < 200; ++round) {
    const Holders holders;
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const std::scoped_lock locked(first);
      const std::scoped_lock also(second);
      _exit(one != other ? 2 : forgotten != 1 ? 3 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "round " << round;
  }
  EXPECT_EQ(forgotten, 0);  // The parent has what it had.
}

}  // namespace
}  // namespace sk
