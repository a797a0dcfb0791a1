#include "transport/shm/watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "transport/shm/process_name.h"

namespace sk::shm {
namespace {

// A process that waits for its end.
class Child {
 public:
  Child() {
    int ready[2] = {-1, -1};
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const ProcessName own = own_process_name();
      if (write(ready[1], &own, sizeof(own)) != sizeof(own)) _exit(1);
      for (;;) pause();
    }
    EXPECT_EQ(read(ready[0], &name, sizeof(name)), ssize_t{sizeof(name)});
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // Returns once its end can be seen.
  void end() const {
    kill(pid_, SIGKILL);
    siginfo_t info = {};
    EXPECT_EQ(waitid(P_PID, id_t(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  void reap() const { waitpid(pid_, nullptr, 0); }

  ProcessName name;

 private:
  pid_t pid_ = -1;
};

Seen seen(const ProcessName& name) {
  Fd fd;
  Result<Seen> found = open_pidfd(name, fd);
  EXPECT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(bool(fd), found.ok() && *found == Seen::kAlive);
  return found.ok() ? *found : Seen::kInvisible;
}

TEST(ProcessName, TellsAProcessFromTheNextOfItsPid) {
  const Child child;
  EXPECT_NE(child.name.space, 0u);
  EXPECT_EQ(seen(child.name), Seen::kAlive);
  ProcessName earlier = child.name;
  earlier.start_time -= 1;
  EXPECT_EQ(seen(earlier), Seen::kEnded) << "another process had that PID before";
  ProcessName elsewhere = child.name;
  elsewhere.space += 1;
  EXPECT_EQ(seen(elsewhere), Seen::kInvisible);
  child.end();
  EXPECT_EQ(seen(child.name), Seen::kEnded) << "not yet reaped";
  child.reap();
  EXPECT_EQ(seen(child.name), Seen::kEnded);
}

TEST(ProcessName, AProgramsNameMayLookLikeFields) {
  char before[16] = {};
  ASSERT_EQ(prctl(PR_GET_NAME, before), 0);
  const ProcessName plain = own_process_name();
  ASSERT_EQ(prctl(PR_SET_NAME, "a) R 1 (2 3"), 0);
  EXPECT_EQ(own_process_name().start_time, plain.start_time);
  ASSERT_EQ(prctl(PR_SET_NAME, before), 0);
}

class WatchTest : public testing::Test {
 protected:
  Fd pidfd_of(const Child& child) {
    Fd fd;
    EXPECT_TRUE(open_pidfd(child.name, fd).ok());
    return fd;
  }
  static std::vector<uint32_t> list(Watch& watch) {
    const auto ended = watch.ended();
    return {ended.begin(), ended.end()};
  }
};

TEST_F(WatchTest, TellsWhoEndedInItsOrderToAll) {
  const Child first, second, third;
  Result<Watch> made = Watch::make(/*watcher=*/0, /*world_size=*/4);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Watch& watcher = *made;
  ASSERT_TRUE(watcher.add(1, pidfd_of(first)).ok());
  ASSERT_TRUE(watcher.add(2, pidfd_of(second)).ok());
  ASSERT_TRUE(watcher.add(3, pidfd_of(third)).ok());
  Watch other(Fd(dup(watcher.shared())), /*watcher=*/0, Fd(), 4);
  EXPECT_TRUE(list(watcher).empty());
  third.end();
  first.end();
  for (int look = 0; look < 3; ++look) {
    EXPECT_EQ(list(watcher), (std::vector<uint32_t>{3, 1}));
    EXPECT_EQ(list(other), (std::vector<uint32_t>{3, 1}));
  }
  second.end();
  EXPECT_EQ(list(other), (std::vector<uint32_t>{3, 1, 2}));
}

TEST_F(WatchTest, TheWatchersEndEndsTheQueueAndIsSeen) {
  const Child watcher_process, peer;
  Result<Watch> made = Watch::make(/*watcher=*/0, /*world_size=*/3);
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_TRUE((*made).add(1, pidfd_of(peer)).ok());
  Watch other(Fd(dup((*made).shared())), /*watcher=*/0, pidfd_of(watcher_process), 3);
  peer.end();
  watcher_process.end();
  EXPECT_EQ(list(other), (std::vector<uint32_t>{1, 0}));
  made = Watch();  // What it held is closed.
  EXPECT_EQ(list(other), (std::vector<uint32_t>{0}));
  const Child next;
  other.follow(2, pidfd_of(next));
  EXPECT_TRUE(list(other).empty());
}

TEST_F(WatchTest, OneProcessHasNothingToLookAfter) {
  Watch none;
  EXPECT_FALSE(none.looks());
  EXPECT_TRUE(none.ended().empty());
}

}  // namespace
}  // namespace sk::shm
