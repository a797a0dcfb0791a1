// `sk run` from outside: signals, and that nothing is left of a job however it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/multi/sk_run_job.h"
#include "tools/sk/guard.h"

namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

// Method: rank 1 fails only once rank 0 has said that it ignores SIGTERM.
TEST(SkRun, ARankThatIgnoresSigtermIsKilled) {
  const std::string mark = unique_seconds();
  char fifo[] = "/tmp/sk_run_test_XXXXXX";
  ASSERT_NE(mkdtemp(fifo), nullptr);
  const std::string path = std::string(fifo) + "/ready";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Job job(shell("2", "if [ $RANK = 1 ]; then read line < " + path + "; exit 3; fi; trap '' TERM; " +
                         "echo ready > " + path + "; sleep " + mark));
  EXPECT_EQ(job.finish(), 3);
  EXPECT_FALSE(runs(mark));
  std::filesystem::remove_all(fifo);
}

TEST(SkRun, NothingIsLeftOfAJobThatEnded) {
  const std::string mark = unique_seconds();
  Job job(shell("2", "setsid sleep " + mark + " & sleep " + mark + " & exit 0"));
  EXPECT_EQ(job.finish(), 0) << job.err;
  EXPECT_FALSE(runs(mark));
}

TEST(SkRun, NothingIsLeftWhenItIsKilledItself) {
  const std::string mark = unique_seconds();
  Job job(shell("3", "sleep " + mark + " & echo up; wait"));
  job.read_output(3);
  kill(job.pid(), SIGKILL);
  EXPECT_EQ(job.finish(), -SIGKILL);
  EXPECT_TRUE(ends_soon(mark));
}

TEST(SkRun, SignalsReachEveryRank) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Job job(
        shell("3", "trap 'echo got; exit 0' INT TERM HUP; echo up; while :; do sleep 0.02; done"));
    job.read_output(3);
    kill(job.pid(), signal);
    EXPECT_EQ(job.finish(), 0) << job.err;
    EXPECT_EQ(job.out, "up\nup\nup\ngot\ngot\ngot\n");
  }
}

TEST(SkRun, ASecondSignalEndsRanksThatIgnoreTheFirst) {
  Job job(shell("2", "trap 'echo got' INT; echo up; while :; do sleep 0.02; done"));
  job.read_output(2);
  kill(job.pid(), SIGINT);
  job.read_output(4);
  kill(job.pid(), SIGINT);
  EXPECT_EQ(job.finish(), 128 + SIGTERM);
}

// Batch systems say by these that the job's time is nearly over.
TEST(SkRun, SignalsThatAskForNoEndReachEveryRankEachTime) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM, SIGXCPU}) {
    Job job(shell("2",
                  "trap 'echo got' USR1 USR2 QUIT ALRM XCPU; trap 'exit 0' TERM; echo up; "
                  "while :; do sleep 0.02; done"));
    job.read_output(2);
    for (const size_t lines : {4, 6, 8}) {
      kill(job.pid(), signal);
      job.read_output(lines);
    }
    kill(job.pid(), SIGTERM);
    EXPECT_EQ(job.finish(), 0) << job.err;
    EXPECT_EQ(job.out, "up\nup\ngot\ngot\ngot\ngot\ngot\ngot\n");
  }
}

// As under nohup and in a shell's background. Method: each of them comes twice before SIGUSR1.
TEST(SkRun, SignalsThatWereIgnoredAtTheStartStayIgnored) {
  const int ignored[] = {SIGHUP, SIGINT, SIGQUIT};
  for (const int signal : ignored) ::signal(signal, SIG_IGN);
  Job job(shell("2", "trap 'echo got; exit 0' USR1; echo up; while :; do sleep 0.02; done"));
  for (const int signal : ignored) ::signal(signal, SIG_DFL);
  job.read_output(2);
  for (int i = 0; i < 2; ++i) {
    for (const int signal : ignored) kill(job.pid(), signal);
  }
  kill(job.pid(), SIGUSR1);
  EXPECT_EQ(job.finish(), 0) << job.err;
  EXPECT_EQ(job.out, "up\nup\ngot\ngot\n");
  EXPECT_THAT(job.err, testing::Not(HasSubstr("sk run")));
}

// Method: rank 1 goes on until the test has seen the end of what rank 0 left.
TEST(SkRun, WhatARankLeavesInItsGroupEndsWithTheRank) {
  const std::string mark = unique_seconds();
  Job job(shell("2", "if [ $RANK = 0 ]; then sleep " + mark +
                         " & echo left; exit 0; fi; trap 'exit 0' TERM; echo up; "
                         "while :; do sleep 0.02; done"));
  job.read_output(2);
  EXPECT_TRUE(ends_soon(mark));
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.finish(), 0) << job.err;
}

pid_t own_group() {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    while (true) pause();
  }
  setpgid(pid, pid);
  return pid;
}

// Method: the forgotten group comes first, so it would be killed before the one that is waited for.
TEST(SkRunGuard, KillsTheGroupsThatItWasNotToldToForget) {
  const pid_t forgotten = own_group(), watched = own_group();
  const pid_t run = fork();
  if (run == 0) {
    sk::tools::Guard guard;
    if (!guard.start().ok()) _exit(1);
    guard.watch(forgotten);
    guard.watch(watched);
    guard.forget(forgotten);
    _exit(0);  // As if killed: the guard is not stopped.
  }
  int status = 0;
  ASSERT_EQ(waitpid(run, &status, 0), run);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(waitpid(watched, &status, 0), watched);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  kill(forgotten, SIGTERM);
  ASSERT_EQ(waitpid(forgotten, &status, 0), forgotten);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

// Where /proc is missing what went to a session of its own cannot be found; nor may it be waited
// for.
TEST(SkRun, WithoutProcItsEndIsBounded) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "LeakSanitizer itself needs /proc, and reads there that it is to be off";
#endif
  if (std::system("unshare -rm mount -t tmpfs none /proc") != 0) {
    GTEST_SKIP() << "this host lets no user hide /proc";
  }
  const std::string mark = unique_seconds();
  Job job(
      {"-n", "1", "sh", "-c", "echo $(setsid sh -c 'echo $$; exec sleep " + mark + " >&- 2>&-' &)"},
      -1, {"unshare", "-rm", "sh", "-c", "mount -t tmpfs none /proc; exec \"$@\"", "sh"});
  EXPECT_EQ(job.finish(), 0) << job.err;
  EXPECT_THAT(job.err, HasSubstr("without /proc they cannot be found"));
  const pid_t left = std::stoi(job.out);
  EXPECT_EQ(kill(left, SIGKILL), 0);
}

}  // namespace
