// What is thrown inside becomes a Status, whatever its type.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "lib/base/status.h"

namespace sk {
namespace {

TEST(Caught, ReturnsWhatTheBodyReturns) {
  EXPECT_TRUE(caught([]() -> Status { return {}; }).ok());
  EXPECT_EQ(caught([]() -> Status { return error(SK_ERR_BUSY, "no"); }).code(), SK_ERR_BUSY);
}

TEST(Caught, NamesWhatWasThrown) {
  const Status memory = caught([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), SK_ERR_NO_MEMORY);
  const Status ours = caught([]() -> Status { throw std::runtime_error("the reason"); });
  EXPECT_EQ(ours.code(), SK_ERR_INTERNAL);
  EXPECT_EQ(ours.message(), "the reason");
}

TEST(Caught, WhatIsNoStandardExceptionEndsNobody) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass)
  const Status status = caught([]() -> Status { throw 7; });
  EXPECT_EQ(status.code(), SK_ERR_INTERNAL);
  EXPECT_NE(status.message().find("no std::exception"), std::string::npos);
}

}  // namespace
}  // namespace sk
