// The notation of meanings and effects: what is read of it, and what is refused.
#include "lib/op/steps.h"

#include <gtest/gtest.h>

namespace sk {
namespace {

TEST(Steps, AreReadAsTheyAreWritten) {
  constexpr Steps kProduct = steps_of(
      "part@r[i, j] = sum(l uncut) mul(a@r[i, l], b@r[l, j]); c@q[i, j] = sum(r) part@r[i, j]");
  ASSERT_EQ(kProduct.size(), 2u);
  const Step& part = kProduct[0];
  EXPECT_EQ(part.out.array, "part");
  EXPECT_EQ(part.out.at, "r");
  ASSERT_EQ(part.out.index.size(), 2u);
  EXPECT_EQ(part.out.index[1], "j");
  EXPECT_EQ(part.fold.monoid, "sum");
  EXPECT_EQ(part.fold.over, "l");
  EXPECT_EQ(part.fold.order, OrderKind::kUncut);
  EXPECT_EQ(part.function, "mul");
  ASSERT_EQ(part.in.size(), 2u);
  EXPECT_EQ(part.in[1].array, "b");
  EXPECT_EQ(part.in[1].index[0], "l");
  EXPECT_TRUE(kProduct[1].function.empty());
  EXPECT_EQ(kProduct[1].fold.order, OrderKind::kSequence);
}

TEST(Steps, HaveExpressionsBlocksAndBindings) {
  constexpr Steps kSome = steps_of(
      "y@q[r * max(m, 1) + i] = op(r blocks 2, group * 2) x@r[q * m + i];"
      "z@r[i, j] = norm[j](x@r[i, j], w@r[j], eps = e + 1, mode = 2)");
  ASSERT_EQ(kSome.size(), 2u);
  EXPECT_EQ(kSome[0].out.index[0], "r * max(m, 1) + i");
  EXPECT_EQ(kSome[0].fold.monoid, "op");
  ASSERT_EQ(kSome[0].fold.blocks.size(), 2u);
  EXPECT_EQ(kSome[0].fold.blocks[1], "group * 2");
  ASSERT_EQ(kSome[1].inside.size(), 1u);
  EXPECT_EQ(kSome[1].inside[0], "j");
  ASSERT_EQ(kSome[1].bind.size(), 2u);
  EXPECT_EQ(kSome[1].bind[0].parameter, "eps");
  EXPECT_EQ(kSome[1].bind[0].value, "e + 1");
}

TEST(Steps, WhatIsNoneIsRefused) {
  for (const char* text : {" ",
                           "y",
                           "y[i]",
                           "y[i] =",
                           "y[i] = x",
                           "y[i] = x[i",
                           "y[i] = x[]",
                           "y[] = x[i]",
                           "y@[i] = x[i]",
                           "y[i] = x[i];",
                           "y[i] = x[i] z[i]",
                           "y[i] = sum() x[i]",
                           "y[i] = sum(r round) x[i]",
                           "y[i] = f(x[i]",
                           "y[i] = f(eps = 1)",
                           "y[i] = f(x[i], = 1)",
                           "y[i, j, k] = x[i]",
                           "y[i] = f(x[i], 3)",
                           "= x[i]",
                           "y[i] = sum(r blocks) x[i] = x[i]"}) {
    Steps steps;
    EXPECT_FALSE(read_steps(text, &steps)) << text;
  }
}

}  // namespace
}  // namespace sk
