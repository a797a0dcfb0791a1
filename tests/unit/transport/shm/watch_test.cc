#include "transport/shm/watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/shm/process_name.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080  // Linux 5.6; older headers do not name it.
#endif

namespace sk::shm {
namespace {

ProcessName name_of_self() {
  Result<ProcessName> own = own_process_name();
  EXPECT_TRUE(own.ok()) << own.status().message();
  return own.ok() ? *own : ProcessName{};
}

// A process that waits for its end.
class Child {
 public:
  Child() {
    int ready[2] = {-1, -1};
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const ProcessName own = name_of_self();
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
  const ProcessName plain = name_of_self();
  ASSERT_EQ(prctl(PR_SET_NAME, "a) R 1 (2 3"), 0);
  EXPECT_EQ(name_of_self().start_time, plain.start_time);
  ASSERT_EQ(prctl(PR_SET_NAME, before), 0);
}

// What lacks a descriptor is no process that cannot be seen: that would be watched otherwise, or
// not at all.
TEST(ProcessName, SaysWhenThereIsNoDescriptorToAskWith) {
  const Child child;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd next(dup(0));
  for (const int free : {0, 1}) {  // For the process, and for when it began.
    SCOPED_TRACE(free);
    const rlimit few = {rlim_t(next.get() + 1 + free), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    Fd fd;
    const Result<Seen> found = open_pidfd(child.name, fd);
    const Result<ProcessName> own = own_process_name();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(found.status().code(), SK_ERR_NO_MEMORY);
    EXPECT_EQ(own.status().code(), free == 0 ? SK_ERR_NO_MEMORY : SK_OK);
  }
}

// Runs `begin`, then forks: the child's name, or what it is without a space where it cannot be.
template <typename Begin>
std::optional<ProcessName> name_in_child(Begin begin) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t outer = fork();
  if (outer == 0) {
    if (!begin()) _exit(2);
    const pid_t inner = fork();  // The first of the new spaces.
    if (inner == 0) {
      const ProcessName own = name_of_self();
      _exit(write(ends[1], &own, sizeof(own)) == sizeof(own) ? 0 : 1);
    }
    int state = 1;
    _exit(waitpid(inner, &state, 0) == inner && state == 0 ? 0 : 1);
  }
  close(ends[1]);
  ProcessName name;
  const bool came = read(ends[0], &name, sizeof(name)) == ssize_t{sizeof(name)};
  close(ends[0]);
  int state = 0;
  EXPECT_EQ(waitpid(outer, &state, 0), outer);
  if (WIFEXITED(state) && WEXITSTATUS(state) == 2) return std::nullopt;
  EXPECT_TRUE(came);
  return name;
}

TEST(ProcessName, HasNoSpaceWhereProcTellsOfOtherPids) {
  const auto name = name_in_child([] { return unshare(CLONE_NEWPID) == 0; });
  if (!name) GTEST_SKIP() << "no space of PIDs can be made here";
  EXPECT_EQ(name->space, 0u);
}

TEST(ProcessName, AnotherClockIsAnotherSpace) {
  const auto name = name_in_child([] {
    if (unshare(CLONE_NEWTIME) != 0) return false;
    const Fd offsets(open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC));
    const std::string hour = "boottime 3600 0";
    return write(offsets.get(), hour.data(), hour.size()) == ssize_t(hour.size());
  });
  if (!name) GTEST_SKIP() << "no time namespace can be made here";
  EXPECT_NE(name->space, name_of_self().space);
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
