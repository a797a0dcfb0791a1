#include "lib/op/expr.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace sk {
namespace {

struct Scope {
  std::map<std::string, int64_t, std::less<>> names;
  bool find(std::string_view name, int64_t* value) const {
    const auto found = names.find(name);
    if (found == names.end()) return false;
    *value = found->second;
    return true;
  }
  bool find_is_float(std::string_view operand, bool* value) const {
    *value = operand == "x";
    return operand == "x" || operand == "index";
  }
};

const Scope kScope{{{"m", 7}, {"k", 300}, {"world", 4}, {"zero", 0}, {"huge", INT64_MAX}}};

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
  EXPECT_EQ(value_of("max(m)"), 7);
  EXPECT_EQ(value_of("not m == 8 and k % 100 == 0 or zero"), 1);
  EXPECT_EQ(value_of("is_float(x) and not is_float(index)"), 1);
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

TEST(Expr, WhatPythonDoesNotReadOrReadsOtherwiseIsRefused) {
  for (const char* text :
       {"",      " ",          "m +",           "+ m",      "m k",       "(m",        "m)",
        "m / 2", "m ** 2",     "1 < m < 9",     "m = 7",    "007",       "2k",        "M",
        "min()", "cdiv(m)",    "cdiv(m, k, 1)", "max(m, )", "pow(m, 2)", "1 + not m", "and",
        "m and", "is_float()", "is_float(1)",   "m & 1",    "1.5",       "m,k",       "\n",
        "m;"}) {
    EXPECT_EQ(error_of(text), ExprError::kSyntax) << text;
  }
  EXPECT_EQ(error_of(std::string_view("m\0", 2)), ExprError::kSyntax);
  EXPECT_EQ(error_of(std::string(100'000, '(')), ExprError::kSyntax);
  EXPECT_EQ(error_of(std::string(100'000, '-') + "1"), ExprError::kNone);
}

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

// The oracle: trees that are evaluated as they are drawn, and written out with more parentheses and
// blanks than they need.
struct Drawn {
  std::string text;
  std::optional<int64_t> value;  // None where it fails.
  int binds;                     // 0: or ... 6: atom.
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  Drawn tree(int depth) {
    if (depth == 0) return atom();
    switch (random_() % 8) {
      case 0: {
        const bool all = random_() % 2;
        const Drawn a = tree(depth - 1), b = tree(depth - 1);
        return {in(a, all ? 1 : 0) + (all ? " and " : " or ") + in(b, all ? 2 : 1),
                logic(a.value, b.value, all), all ? 1 : 0};
      }
      case 1: {
        const Drawn a = tree(depth - 1);
        return {"not " + in(a, 2), a.value ? std::optional<int64_t>(*a.value == 0) : a.value, 2};
      }
      case 2:
        return compared(tree(depth - 1), tree(depth - 1));
      case 3: {
        const Drawn a = tree(depth - 1);
        return {"-" + in(a, 6), checked(a.value, a.value, '_'), 5};
      }
      case 4:
        return called(tree(depth - 1), tree(depth - 1));
      case 5:
      case 6:
        return operated(tree(depth - 1), tree(depth - 1), "+-"[random_() % 2], 4);
      default:
        return operated(tree(depth - 1), tree(depth - 1), "*/%"[random_() % 3], 5);
    }
  }

 private:
  Drawn atom() {
    if (random_() % 3 == 0) {
      auto name = kScope.names.begin();
      std::advance(name, random_() % kScope.names.size());
      return {name->first, name->second, 6};
    }
    const int64_t value = random_() % 20 == 0 ? int64_t(random_() >> 1) : int64_t(random_() % 12);
    return {std::to_string(value), value, 6};
  }
  std::string in(const Drawn& part, int binds) {
    std::string text = part.text;
    if (part.binds < binds || random_() % 8 == 0) text = "(" + text + ")";
    return random_() % 8 == 0 ? " " + text + "  " : text;
  }
  static std::optional<int64_t> logic(std::optional<int64_t> a, std::optional<int64_t> b,
                                      bool all) {
    if (!a) return a;
    if (all != (*a != 0)) return !all;
    return b ? std::optional<int64_t>(*b != 0) : b;
  }
  static std::optional<int64_t> fits(__int128 value) {
    if (value < INT64_MIN || value > INT64_MAX) return std::nullopt;
    return int64_t(value);
  }
  static std::optional<int64_t> checked(std::optional<int64_t> a, std::optional<int64_t> b,
                                        char what) {
    if (!a || !b) return std::nullopt;
    const __int128 x = *a, y = *b;
    if (what == '+') return fits(x + y);
    if (what == '-') return fits(x - y);
    if (what == '*') return fits(x * y);
    if (what == '_') return fits(-x);
    if (y == 0) return std::nullopt;
    __int128 down = x / y;
    if (down * y != x && (x < 0) != (y < 0)) --down;
    if (what == 'c') return fits(down) ? fits(down * y == x ? down : down + 1) : std::nullopt;
    if (!fits(down)) return std::nullopt;
    return what == '/' ? fits(down) : fits(x - down * y);
  }
  Drawn operated(const Drawn& a, const Drawn& b, char what, int binds) {
    const std::string sign = what == '/' ? "//" : std::string(1, what);
    const std::string left = in(a, binds), right = in(b, binds + 1);
    return {left + (random_() % 2 ? sign : " " + sign + " ") + right,
            checked(a.value, b.value, what), binds};
  }
  Drawn compared(const Drawn& a, const Drawn& b) {
    const char* signs[] = {"==", "!=", "<", "<=", ">", ">="};
    const size_t which = random_() % 6;
    std::optional<int64_t> value;
    if (a.value && b.value) {
      const int64_t x = *a.value, y = *b.value;
      const bool all[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
      value = all[which];
    }
    return {in(a, 4) + " " + signs[which] + " " + in(b, 4), value, 3};
  }
  Drawn called(const Drawn& a, const Drawn& b) {
    const char* names[] = {"min", "max", "cdiv"};
    const size_t which = random_() % 3;
    std::optional<int64_t> value;
    if (a.value && b.value && which < 2) {
      value = which == 0 ? std::min(*a.value, *b.value) : std::max(*a.value, *b.value);
    } else if (which == 2) {
      value = checked(a.value, b.value, 'c');
    }
    return {std::string(names[which]) + "(" + in(a, 0) + ", " + in(b, 0) + ")", value, 6};
  }

  std::mt19937_64 random_;
};

TEST(Expr, EqualsTreesThatWereEvaluatedAsTheyWereDrawn) {
  const uint64_t seed = std::random_device()();
  Draw draw(seed);
  int failed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Drawn tree = draw.tree(i % 6);
    const ExprValue value = evaluate(tree.text, kScope);
    ASSERT_EQ(value.ok(), tree.value.has_value()) << tree.text << ", seed " << seed;
    if (value.ok()) {
      ASSERT_EQ(value.value, *tree.value) << tree.text << ", seed " << seed;
    }
    failed += !value.ok();
  }
  EXPECT_GT(failed, 500);
  EXPECT_LT(failed, 15'000);
}

// Any text ends with a value or an error.
TEST(Expr, AnyTextIsReadOrRefused) {
  std::mt19937_64 random(std::random_device{}());
  const char* parts[] = {"m", "k",  "(",  ")",         "+",    "-",    "*",    "//",
                         "%", "==", "<",  " and ",     " or ", "not ", "min(", "cdiv(",
                         ",", "0",  "12", "is_float(", "x",    " "};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t j = random() % 12; j > 0; --j) text += parts[random() % std::size(parts)];
    const ExprValue value = evaluate(text, kScope);
    EXPECT_LE(value.at, text.size()) << text;
    EXPECT_TRUE(value.ok() || value.value == 0) << text;
  }
}

}  // namespace
}  // namespace sk
