// A rank's main thread is asked where it is: the language's handler is waited for until it returns.
#include "lib/control/host/stack_probe.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace sk::control {
namespace {

int file = -1;

// As a rank that is taken off its core in the midst of it.
void write_in_pieces(int) {
  for (const char piece : {'a', 'b', 'c'}) {
    if (write(file, &piece, 1) != 1) return;
    poll(nullptr, 0, 20);
  }
}

constexpr int64_t kSecond = 1'000'000'000;

StackProbeConfig config(int64_t answer_ns = 60 * kSecond) {
  return {0, SIGRTMAX - 2, file, answer_ns};
}

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ASSERT_EQ(sigaction(config().language_signal, &action, nullptr), 0);
}

TEST(StackProbe, WaitsUntilTheLanguageHasWrittenAll) {
  file = memfd_create("stack", MFD_CLOEXEC);
  set_handler(write_in_pieces);
  StackProbe probe;
  ASSERT_TRUE(probe.install(config()).ok());
  ASSERT_TRUE(probe.install(config()).ok());  // Again, in a process that is forked from it.
  for (int round = 0; round < 3; ++round) {
    std::string text;
    std::atomic<uint32_t> begun{0}, over{0};
    std::thread asker([&] {
      begun.wait(0);  // Who starts a thread blocks all signals meanwhile.
      text = probe.language();
      over.store(1);
      over.notify_one();
    });
    begun.store(1);
    begun.notify_one();
    over.wait(0);
    asker.join();
    EXPECT_EQ(text, "abc");
  }
  close(file);
}

TEST(StackProbe, AHandlerInItsPlaceIsNotWaitedForLong) {
  file = memfd_create("stack", MFD_CLOEXEC);
  set_handler(write_in_pieces);
  StackProbe probe;
  ASSERT_TRUE(probe.install(config(kSecond / 5)).ok());
  set_handler(write_in_pieces);  // Nobody says now when it is done.
  std::string text;
  std::thread([&] { text = probe.language(); }).join();
  EXPECT_TRUE(std::string("abc").starts_with(text)) << text;
  close(file);
}

TEST(StackProbe, ASignalWithoutHandlerIsRefused) {
  file = memfd_create("stack", MFD_CLOEXEC);
  set_handler(SIG_DFL);
  StackProbe probe;
  const Status refused = probe.install(config());
  EXPECT_EQ(refused.code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_NE(refused.message().find("has no handler"), std::string::npos) << refused.message();
  close(file);
}

}  // namespace
}  // namespace sk::control
