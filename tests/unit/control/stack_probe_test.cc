// A rank's main thread is asked where it is: the language's handler is waited for until it returns.
#include "lib/control/host/stack_probe.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

// libgcc's, by which a compiler at run time tells of its frames.
extern "C" {
void __register_frame(void* begin);
void __deregister_frame(void* begin);
}

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

// What .eh_frame holds of a function at `begin`: what all have in common, this one, the end.
std::vector<uint32_t> frame_of(uintptr_t begin) {
  const auto low = static_cast<uint32_t>(begin), high = static_cast<uint32_t>(begin >> 32);
  return {12, 0, 0x78010001, 0x10, 20, 20, low, high, 16, 0, 0};
}

// Julia's compiler is in malloc() and tells of frames all the time that an interrupted cell
// compiles.
void compile_while_it_is_asked(int rounds) {
  StackProbe probe;
  StackProbeConfig asks;
  asks.native_signal = SIGRTMAX - 3;
  asks.answer_ns = 20 * kSecond;
  if (!probe.install(asks).ok()) std::_Exit(2);
  std::atomic<uint32_t> begun{0};
  std::atomic<bool> over{false};
  std::thread asker([&] {
    begun.wait(0);  // Who starts a thread blocks all signals meanwhile.
    for (int i = 0; i < rounds; ++i)
      if (probe.native().find("blocks signals") != std::string::npos)
        std::_Exit(3);  // The thread that was asked waits for itself, and so would join().
    over = true;
  });
  begun.store(1);
  begun.notify_one();
  std::vector<std::vector<uint32_t>> told;
  for (uintptr_t i = 0; !over; ++i) {
    told.push_back(frame_of(0x7000'0000'0000 + 16 * i));
    __register_frame(told.back().data());
    std::free(std::malloc(500 + i % 5000));
    if (told.size() < 64) continue;
    for (std::vector<uint32_t>& each : told) __deregister_frame(each.data());
    told.clear();
  }
  asker.join();
  std::_Exit(0);
}

TEST(StackProbeDeath, AThreadThatAllocatesOrTellsOfFramesAnswersAndGoesOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(compile_while_it_is_asked(500), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sk::control
