// The limit of descriptors follows what is needed, upwards only. Each case is a process of its own.
#include "lib/base/descriptors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sk {
namespace {

using testing::HasSubstr;

// `body` of a process that has `soft` and `hard` more than it has open, and what it has open.
template <typename Body>
void within(rlim_t soft, rlim_t hard, const Body& body) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const int next = dup(0);
    close(next);
    closefrom(next);  // All numbers below are taken.
    const rlimit limit = {rlim_t(next) + soft, rlim_t(next) + hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
    body(rlim_t(next));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

rlimit now() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

TEST(Descriptors, TheLimitIsRaisedToWhatIsNeededAndNoHigher) {
  within(8, 1000, [](rlim_t open) {
    EXPECT_TRUE(make_room_for_descriptors(50, 100, "a test").ok());
    EXPECT_EQ(now().rlim_cur, open + 100);
    EXPECT_EQ(now().rlim_max, open + 1000);
  });
}

TEST(Descriptors, ALimitThatSufficesStays) {
  within(200, 1000, [](rlim_t open) {
    EXPECT_TRUE(make_room_for_descriptors(50, 100, "a test").ok());
    EXPECT_EQ(now().rlim_cur, open + 200);
  });
}

TEST(Descriptors, AsManyAsTheHardLimitAllowsAreEnoughIfTheyAreTheLeast) {
  within(8, 60, [](rlim_t open) {
    EXPECT_TRUE(make_room_for_descriptors(60, 100, "a test").ok());
    EXPECT_EQ(now().rlim_cur, open + 60);
    for (int i = 0; i < 60; ++i) EXPECT_GE(dup(0), 0);
  });
}

TEST(Descriptors, TooFewAreToldWithNeedAndLimits) {
  within(8, 60, [](rlim_t open) {
    const Status status = make_room_for_descriptors(61, 100, "a test");
    EXPECT_EQ(status.code(), SK_ERR_NO_MEMORY);
    EXPECT_EQ(status.message(),
              fmt::format("a test takes 61 descriptors more, and {} of at most {} descriptors are "
                          "open (ulimit -n; the hard limit is {})",
                          open, open + 60, open + 60));
  });
}

TEST(Descriptors, WhoHasNoneLeftIsToldToo) {
  within(8, 8, [](rlim_t) {
    while (dup(0) >= 0) {
    }
    EXPECT_EQ(make_room_for_descriptors(1, 1, "a test").code(), SK_ERR_NO_MEMORY);
    EXPECT_THAT(descriptors_text(), HasSubstr("descriptors are open"));
  });
}

}  // namespace
}  // namespace sk
