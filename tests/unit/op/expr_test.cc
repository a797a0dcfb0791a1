#include "lib/op/expr.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/op/drawn_text.h"

namespace sk {
namespace {

int64_t value_of(const char* text) {
  const ExprValue value = evaluate(text, kScope);
  EXPECT_TRUE(value.ok()) << text << ": error " << int(value.error) << " at " << value.at;
  return value.value;
}

ExprError error_of(std::string_view text) { return evaluate(text, kScope).error; }

TEST(Expr, ReadsAsPythonDoes) {
  EXPECT_EQ(value_of("world * m"), 28);
  EXPECT_EQ(value_of("cdiv(k, 128) + 2 * (m - 1)"), 15);
  EXPECT_EQ(value_of("-7 // 2"), -4);
  EXPECT_EQ(value_of("-7 % 3"), 2);
  EXPECT_EQ(value_of("7 // -2"), -4);
  EXPECT_EQ(value_of("7 % -3"), -2);
  EXPECT_EQ(value_of("10 - 3 - 2"), 5);
  EXPECT_EQ(value_of("100 // 5 // 2"), 10);
  EXPECT_EQ(value_of("cdiv(-7, 2)"), -3);
  EXPECT_EQ(value_of("min(k, m, world)"), 4);
  EXPECT_EQ(value_of("max(m, world, k, zero)"), 300);
  EXPECT_EQ(value_of("not m == 8 and k % 100 == 0 or zero"), 1);
  EXPECT_EQ(value_of("is_float(x) and not is_float(index)"), 1);
}

TEST(Expr, AndAndOrGiveOneOfTheirSides) {
  EXPECT_EQ(value_of("(m or 1) * 2"), 14);
  EXPECT_EQ(value_of("(zero or k) + 1"), 301);
  EXPECT_EQ(value_of("(zero or m == 8) + 1"), 1);
  EXPECT_EQ(value_of("m and k"), 300);
  EXPECT_EQ(value_of("(zero and k) - 1"), -1);
  EXPECT_EQ(value_of("zero or m and k or world"), 300);
  EXPECT_EQ(value_of("(not m) + (not zero) * 2 + (not not k) * 4"), 6);
  EXPECT_EQ(value_of("(m < k) + (m < k) * (m != k)"), 2);
}

TEST(Expr, WhatIsNotReachedCannotFail) {
  EXPECT_EQ(value_of("zero == 0 or m % zero == 0"), 1);
  EXPECT_EQ(value_of("zero != 0 and huge + 1 > 0"), 0);
  EXPECT_EQ(value_of("zero != 0 and (-huge - 1) // -1 == 0"), 0);
  EXPECT_EQ(value_of("zero != 0 and (-huge - 1) % -1 == 0"), 0);
  EXPECT_EQ(value_of("zero != 0 and cdiv(-huge - 1, -1) == 0"), 0);
  EXPECT_EQ(error_of("zero != 0 and m +"), ExprError::kSyntax);
}

TEST(Expr, TheLeastNumberIsDividedLikeOthers) {
  EXPECT_EQ(value_of("(-huge - 1) % 3"), 1);
  EXPECT_EQ(value_of("(-huge - 1) // 3"), -3074457345618258603);
  EXPECT_EQ(value_of("cdiv(-huge - 1, 3)"), -3074457345618258602);
  EXPECT_EQ(value_of("cdiv(huge, 2)"), 4611686018427387904);
  EXPECT_EQ(value_of("huge % (-huge - 1)"), -1);
  EXPECT_EQ(value_of("(-huge - 1) % -1"), 0);
}

TEST(Expr, EveryErrorHasItsKindAndPlace) {
  EXPECT_EQ(error_of("huge + 1"), ExprError::kOverflow);
  EXPECT_EQ(error_of("-huge - 2"), ExprError::kOverflow);
  EXPECT_EQ(error_of("huge * m"), ExprError::kOverflow);
  EXPECT_EQ(error_of("(-huge - 1) // -1"), ExprError::kOverflow);
  EXPECT_EQ(error_of("9223372036854775808"), ExprError::kOverflow);
  EXPECT_EQ(error_of("m // zero"), ExprError::kDivision);
  EXPECT_EQ(error_of("m % zero"), ExprError::kDivision);
  EXPECT_EQ(error_of("cdiv(m, zero)"), ExprError::kDivision);
  const ExprValue unknown = evaluate("m + kk", kScope);
  EXPECT_EQ(unknown.error, ExprError::kUnknownName);
  EXPECT_EQ(unknown.at, 4u);
  EXPECT_EQ(error_of("is_float(y)"), ExprError::kUnknownName);
}

const char* const kRefused[] = {"",
                                " ",
                                "m +",
                                "+ m",
                                "m k",
                                "(m",
                                "m)",
                                "m / 2",
                                "m ** 2",
                                "1 < m < 9",
                                "m = 7",
                                "007",
                                "2k",
                                "M",
                                "min()",
                                "cdiv(m)",
                                "and",
                                "cdiv(m, k, 1)",
                                "max(m, )",
                                "pow(m, 2)",
                                "1 + not m",
                                "m and",
                                "is_float()",
                                "m & 1",
                                "is_float(1)",
                                "m,k",
                                "1.5",
                                "\n",
                                "m;",
                                "m // 0 )",
                                ") (",
                                "m k k k",
                                "is_float(",
                                "cdiv(m,",
                                "not",
                                "max(m)",
                                "0or 1",
                                "7and 1",
                                "0_0",
                                "1_000",
                                "0x1f",
                                "1e3",
                                "m < k == 1",
                                "m == k == 1",
                                "in",
                                "in + 1",
                                "lambda",
                                "is_float(in)",
                                "is_float(class)",
                                "is_float(min)",
                                "is_float(not)",
                                "min",
                                "max + 1",
                                "cdiv",
                                "is_float",
                                "(min)",
                                "__debug__",
                                "m if k else 1",
                                "m in k",
                                "m is k",
                                "in(m)",
                                "max(m, k,)",
                                "min(is_float, 1)"};

TEST(Expr, WhatPythonDoesNotReadOrReadsOtherwiseIsRefused) {
  for (const char* text : kRefused) {
    EXPECT_EQ(error_of(text), ExprError::kSyntax) << text;
    EXPECT_FALSE(is_expression(text)) << text;
  }
  EXPECT_EQ(error_of(std::string_view("m\0", 2)), ExprError::kSyntax);
  EXPECT_EQ(error_of(std::string(100'000, '(')), ExprError::kSyntax);
  EXPECT_EQ(error_of(std::string(100'000, '-') + "1"), ExprError::kNone);
}

TEST(Expr, ProofreadingFindsNamesThatNoValueReaches) {
  EXPECT_EQ(value_of("world == 4 or is_float(typo) or typo"), 1);
  const ExprValue operand = proofread("world == 4 or is_float(typo)", kScope);
  EXPECT_EQ(operand.error, ExprError::kUnknownName);
  EXPECT_EQ(operand.at, 23u);
  const ExprValue name = proofread("zero and typo + is_float(typos)", kScope);
  EXPECT_EQ(name.error, ExprError::kUnknownName);
  EXPECT_EQ(name.at, 9u);
  EXPECT_EQ(proofread("zero and typo + ", kScope).error, ExprError::kSyntax);
  const ExprValue fine = proofread("m // zero + huge * huge + is_float(index)", kScope);
  EXPECT_TRUE(fine.ok());
  EXPECT_EQ(fine.value, 0);
}

// An error of a value must not open the way to what its syntax would have stopped.
TEST(Expr, SyntaxOutranksEveryOtherError) {
  for (const std::string before :
       {"1 // 0 + ", "zz + ", "huge * huge + ", "-huge - 2 + ", "is_float(zz) + ",
        "9223372036854775808 + ", "cdiv(1, 0) + ", "1 % 0 + ", "zero and m % 0 + "}) {
    for (const char* text : kRefused) {
      EXPECT_EQ(error_of(before + text), ExprError::kSyntax) << before << text;
      EXPECT_FALSE(is_expression(before + text)) << before << text;
    }
    for (const char* deep : {"(", "min(", "max(m,", "cdiv(", "-(", "m*("}) {
      std::string text = before;
      for (int i = 0; i < 100'000; ++i) text += deep;
      EXPECT_EQ(error_of(text), ExprError::kSyntax) << before << deep;
      EXPECT_FALSE(is_expression(text)) << before << deep;
    }
  }
  const ExprValue both = evaluate("1 // 0 + (m k", kScope);
  EXPECT_EQ(both.error, ExprError::kSyntax);
  EXPECT_EQ(both.at, 12u);
  EXPECT_FALSE(is_expression("m // (m - n) k k k"));
  EXPECT_FALSE(is_expression("9223372036854775808 ) ("));
  EXPECT_TRUE(is_expression("m // (m - n)"));
}

// The compiler's own limit is some five hundred calls.
template <size_t kDepth>
consteval bool is_nested_expression(std::string_view before, std::string_view open) {
  std::array<char, 64 + kDepth * 8> text{};
  size_t size = 0;
  for (const char c : before) text[size++] = c;
  for (size_t i = 0; i < kDepth; ++i) {
    for (const char c : open) text[size++] = c;
  }
  text[size++] = 'm';
  for (size_t i = 0; i < kDepth; ++i) text[size++] = ')';
  return is_expression({text.data(), size});
}
static_assert(is_nested_expression<32>("", "max(1,") && is_nested_expression<32>("1//0+", "("));
static_assert(!is_nested_expression<33>("", "max(1,") && !is_nested_expression<33>("1//0+", "("));
static_assert(!is_nested_expression<400>("1//0+", "(") && !is_nested_expression<400>("", "max(1,"));

TEST(Expr, ShapesAreListsOfThem) {
  std::vector<std::string> axes;
  for_each_axis("..., min(m, k), cdiv(k, 128)",
                [&](std::string_view axis) { axes.emplace_back(axis); });
  EXPECT_EQ(axes, (std::vector<std::string>{"...", "min(m, k)", "cdiv(k, 128)"}));
  for_each_axis(" ", [](std::string_view) { FAIL() << "an empty shape has an axis"; });
}

// In the compiler, too.
static_assert(evaluate("2 * 3 + 4", expr::AnyNames{}).value == 10);
static_assert(is_expression("cdiv(m, 8) <= world") && !is_expression("m /"));

TEST(Expr, EqualsTreesThatWereEvaluatedAsTheyWereDrawn) {
  const uint64_t seed = drawn_seed();
  SCOPED_TRACE("SK_SEED=" + std::to_string(seed));
  Draw draw(seed);
  int failed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Drawn tree = draw.tree(i % 6);
    const ExprValue value = evaluate(tree.text, kScope);
    ASSERT_EQ(value.ok(), tree.value.has_value()) << tree.text;
    if (value.ok()) {
      ASSERT_EQ(value.value, *tree.value) << tree.text;
    }
    failed += !value.ok();
  }
  EXPECT_GT(failed, 500);
  EXPECT_LT(failed, 15'000);
}

}  // namespace
}  // namespace sk
