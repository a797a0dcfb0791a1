// What sk_comm_shrink() refuses, and a world of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;

TEST(ShrinkArguments, AreChecked) {
  sk_context* context = nullptr;
  sk_comm *comm = nullptr, *left = nullptr, *self = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  ASSERT_EQ(sk_comm_create(context, nullptr, &comm), SK_OK);
  EXPECT_EQ(sk_comm_shrink(comm, 0, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("out_comm"));
  EXPECT_EQ(sk_comm_shrink(nullptr, 0, &left), SK_ERR_BAD_HANDLE);
  for (const int64_t wrong : {int64_t{-1}, (int64_t{1} << 40) + 1}) {
    EXPECT_EQ(sk_comm_shrink(comm, wrong, &left), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), HasSubstr("timeout_ms is " + std::to_string(wrong)));
  }
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK);
  EXPECT_EQ(sk_comm_shrink(self, 0, &left), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("sk_comm_self()"));
  EXPECT_EQ(left, nullptr);
  // A world of one has lost nobody.
  EXPECT_EQ(sk_comm_shrink(comm, 0, &left), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_barrier(left, nullptr), SK_OK);
  EXPECT_EQ(sk_comm_free(left), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(ShrinkArguments, ThreadsAreRefused) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    sk_comm* left = nullptr;
    EXPECT_EQ(sk_comm_shrink(comm, 0, &left), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(sk_last_error(), HasSubstr("SK_BOOTSTRAP_THREADS"));
  });
}

}  // namespace
}  // namespace sk::testing_ops
