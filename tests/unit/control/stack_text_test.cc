// What of a rank's stack is shown.
#include "lib/control/stack_text.h"

#include <gtest/gtest.h>

namespace sk::control {
namespace {

constexpr NativeFrame kC = {FrameOf::kCLibrary, true}, kCStep = {FrameOf::kCLibrary, false};
constexpr NativeFrame kSk = {FrameOf::kLibrary, true}, kSkStep = {FrameOf::kLibrary, false};
constexpr NativeFrame kBinding = {FrameOf::kBinding, false};
constexpr NativeFrame kPython = {FrameOf::kInterpreter, true};
constexpr NativeFrame kUser = {FrameOf::kOther, false};

using Places = std::vector<size_t>;

TEST(StackText, OfTheLibraryTheCalledFunctionIsShown) {
  const std::vector<NativeFrame> sleeps = {kC,       kSkStep,  kSkStep, kSk,
                                           kBinding, kBinding, kPython, kCStep};
  const std::vector<NativeFrame> looks = {kSkStep, kSk, kBinding, kBinding, kPython, kCStep};
  EXPECT_EQ(telling_frames(sleeps, true), Places{3});
  EXPECT_EQ(telling_frames(looks, true), Places{1});
}

TEST(StackText, WhatTheLibraryWaitsInElsewhereIsShown) {
  const std::vector<NativeFrame> in_driver = {kC, kUser, kUser, kSkStep, kSk, kBinding, kPython};
  EXPECT_EQ(telling_frames(in_driver, true), (Places{0, 1, 2, 4}));
  // It called the user's function, which waits by itself.
  const std::vector<NativeFrame> called_back = {kC, kPython, kBinding, kSkStep, kSk, kBinding};
  EXPECT_EQ(telling_frames(called_back, true), (Places{0, 4}));
}

TEST(StackText, StepsOfTheCLibraryAreNotShown) {
  EXPECT_EQ(telling_frames({kCStep, kCStep, kPython, kC, kCStep}, true), Places{});
  EXPECT_EQ(telling_frames({kCStep, kC, kUser, kPython, kC}, true), (Places{1, 2}));
}

TEST(StackText, HowTheProcessWasStartedIsShownWhereItIsNotKnown) {
  EXPECT_EQ(telling_frames({kUser, kC}, true), Places{0});
  EXPECT_EQ(telling_frames({kUser, kC}, false), (Places{0, 1}));
}

}  // namespace
}  // namespace sk::control
