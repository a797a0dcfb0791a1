// Shapes, ranges and conditions of operations as text that C++ and Python read alike.
//
// Integers, names, + - * // %, cdiv(a, b), min(a, b, ...), max(a, b, ...), parentheses; comparisons
// (no chains) and `not`, which give 0 or 1; `and` and `or`, which give one of their sides;
// is_float(x) of an operand. `//` and `%` round down; what `and` and `or` do not reach cannot fail.
// Whatever is read is Python, too, and has the same value there, except that all numbers are int64,
// also on the way, where Python's would grow. (Python gives up on thousands of signs in a row.)
#ifndef SK_LIB_OP_EXPR_H_
#define SK_LIB_OP_EXPR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace sk {

enum class ExprError : uint8_t {
  kNone,
  kSyntax,
  kUnknownName,
  kOverflow,
  kDivision,  // By zero.
};

struct ExprValue {
  int64_t value = 0;
  ExprError error = ExprError::kNone;
  size_t at = 0;  // Of the error, in the text.

  constexpr bool ok() const { return error == ExprError::kNone; }
};

namespace expr {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

// What Python lets nobody bind. A name of a schema that is among them has a trailing underscore in
// expressions: `in_`.
constexpr bool is_keyword(std::string_view word) {
  constexpr std::string_view kWords[] = {
      "__debug__", "and",    "as",   "assert", "async",  "await",    "break", "class", "continue",
      "def",       "del",    "elif", "else",   "except", "finally",  "for",   "from",  "global",
      "if",        "import", "in",   "is",     "lambda", "nonlocal", "not",   "or",    "pass",
      "raise",     "return", "try",  "while",  "with",   "yield"};
  static_assert(std::is_sorted(std::begin(kWords), std::end(kWords)));
  return word.size() > 1 && std::binary_search(std::begin(kWords), std::end(kWords), word);
}
constexpr bool is_function(std::string_view word) {
  return word == "cdiv" || word == "min" || word == "max" || word == "is_float";
}

// `Scope` has `bool find(std::string_view name, int64_t* value) const` and `bool find_is_float(
// std::string_view operand, bool* value) const`: false where the name is unknown.
template <typename Scope>
class Reader {
 public:
  // Without `computes` nothing is reached, so that no value matters, and every name is looked up.
  constexpr Reader(std::string_view text, const Scope& scope, bool computes)
      : text_(text), scope_(scope), computes_(computes), reached_(computes) {}

  constexpr ExprValue read() {
    const int64_t value = disjunction();
    skip_blanks();
    if (at_ != text_.size()) refuse();
    return {computes_ && error_ == ExprError::kNone ? value : 0, error_, error_at_};
  }

 private:
  static constexpr int kDepthMax = 32;  // Of parentheses: texts of users are read too.

  // Of a value: the first one counts, and only where it is reached.
  constexpr void fail(ExprError error) {
    if (reached_) note(error, at_);
  }
  constexpr void unknown(size_t name_at) {
    if (reached_ || !computes_) note(ExprError::kUnknownName, name_at);
  }
  constexpr void note(ExprError error, size_t at) {
    if (error_ != ExprError::kNone) return;
    error_ = error;
    error_at_ = at;
  }
  // Outranks what was computed before. Nothing more is read, which is what bounds the recursion.
  constexpr void refuse() {
    if (error_ != ExprError::kSyntax) error_at_ = at_;
    error_ = ExprError::kSyntax;
    at_ = text_.size();
  }
  constexpr void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  constexpr char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  constexpr bool take(std::string_view symbol) {
    skip_blanks();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }
  constexpr void need(std::string_view symbol) {
    if (!take(symbol)) refuse();
  }
  constexpr std::string_view word_here() {
    skip_blanks();
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || (end > at_ && is_digit(text_[end])))) {
      ++end;
    }
    return text_.substr(at_, end - at_);
  }
  constexpr bool take_word(std::string_view word) {
    if (word_here() != word) return false;
    at_ += word.size();
    return true;
  }

  constexpr int64_t disjunction() {
    int64_t value = conjunction();
    while (take_word("or")) {
      const bool reached = reached_;
      reached_ = reached && value == 0;
      const int64_t right = conjunction();
      reached_ = reached;
      value = value != 0 ? value : right;
    }
    return value;
  }
  constexpr int64_t conjunction() {
    int64_t value = negation();
    while (take_word("and")) {
      const bool reached = reached_;
      reached_ = reached && value != 0;
      const int64_t right = negation();
      reached_ = reached;
      value = value != 0 ? right : value;
    }
    return value;
  }
  constexpr int64_t negation() {
    if (!take_word("not")) return comparison();
    bool negated = true;
    while (take_word("not")) negated = !negated;
    return (comparison() == 0) == negated;
  }
  constexpr int64_t comparison() {
    const int64_t left = sum();
    if (take("==")) return left == sum();
    if (take("!=")) return left != sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("<")) return left < sum();
    if (take(">")) return left > sum();
    return left;
  }
  constexpr int64_t sum() {
    int64_t value = product();
    while (true) {
      if (take("+")) {
        if (__builtin_add_overflow(value, product(), &value)) fail(ExprError::kOverflow);
      } else if (take("-")) {
        if (__builtin_sub_overflow(value, product(), &value)) fail(ExprError::kOverflow);
      } else {
        return value;
      }
    }
  }
  constexpr int64_t product() {
    int64_t value = factor();
    while (true) {
      if (take("//")) {
        value = floor_divided(value, factor());
      } else if (take("%")) {
        value = remainder(value, factor());
      } else if (take("*")) {
        if (__builtin_mul_overflow(value, factor(), &value)) fail(ExprError::kOverflow);
      } else {
        return value;
      }
    }
  }
  // Else it fails; the processor would trap, also where it is not reached.
  constexpr bool can_divide(int64_t value, int64_t by) {
    if (by != 0 && (value != INT64_MIN || by != -1)) return true;
    fail(by == 0 ? ExprError::kDivision : ExprError::kOverflow);
    return false;
  }
  // Of the sign of `by`. By -1 the processor would trap on the least number.
  constexpr int64_t remainder(int64_t value, int64_t by) {
    if (by == -1 || !can_divide(value, by)) return 0;
    const int64_t left = value % by;
    return left != 0 && (left < 0) != (by < 0) ? left + by : left;
  }
  // Rounded down.
  constexpr int64_t floor_divided(int64_t value, int64_t by) {
    if (!can_divide(value, by)) return 0;
    return value / by - (value % by != 0 && (value < 0) != (by < 0));
  }
  constexpr int64_t factor() {
    bool negative = false;
    while (take("-")) negative = !negative;
    const int64_t value = atom();
    int64_t result = value;
    if (negative && __builtin_sub_overflow(int64_t{0}, value, &result)) fail(ExprError::kOverflow);
    return result;
  }
  constexpr int64_t atom() {
    if (is_digit(peek())) return number();
    if (take("(")) {
      if (++depth_ > kDepthMax) refuse();
      const int64_t value = disjunction();
      --depth_;
      need(")");
      return value;
    }
    const std::string_view word = word_here();
    if (word.empty() || is_keyword(word)) {
      refuse();
      return 0;
    }
    const size_t begin = at_;
    at_ += word.size();
    if (take("(")) return call(word);
    if (is_function(word)) refuse();
    int64_t value = 0;
    if (!scope_.find(word, &value)) unknown(begin);
    return value;
  }
  constexpr int64_t number() {
    if (text_[at_] == '0' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      refuse();  // As Python has it.
    }
    int64_t value = 0;
    bool overflow = false;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      overflow |= __builtin_mul_overflow(value, int64_t{10}, &value);
      overflow |= __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value);
    }
    if (overflow) fail(ExprError::kOverflow);
    // Python reads "0or 1", warns, and means to stop.
    if (at_ < text_.size() && is_letter(text_[at_])) refuse();
    return value;
  }
  // Behind "word(".
  constexpr int64_t call(std::string_view word) {
    if (++depth_ > kDepthMax) refuse();
    const int64_t value = word == "is_float" ? is_float() : function(word);
    --depth_;
    need(")");
    return value;
  }
  constexpr int64_t is_float() {
    const std::string_view operand = word_here();
    if (operand.empty() || is_keyword(operand) || is_function(operand)) {
      refuse();
      return 0;
    }
    const size_t begin = at_;
    at_ += operand.size();
    bool value = false;
    if (!scope_.find_is_float(operand, &value)) unknown(begin);
    return value;
  }
  constexpr int64_t function(std::string_view word) {
    if (!is_function(word)) {
      refuse();
      return 0;
    }
    int64_t value = disjunction();
    do {
      need(",");  // One number alone has no least one in Python.
      const int64_t other = disjunction();
      if (word == "cdiv") return rounded_up(value, other);
      value = word == "min" ? std::min(value, other) : std::max(value, other);
    } while (peek() == ',');
    return value;
  }
  constexpr int64_t rounded_up(int64_t value, int64_t by) {
    if (!can_divide(value, by)) return 0;
    return value / by + (value % by != 0 && (value < 0) == (by < 0));
  }

  std::string_view text_;
  const Scope& scope_;
  size_t at_ = 0, error_at_ = 0;
  int depth_ = 0;
  bool computes_, reached_;
  ExprError error_ = ExprError::kNone;
};

// Every name is known, and 1.
struct AnyNames {
  constexpr bool find(std::string_view, int64_t* value) const { return *value = 1, true; }
  constexpr bool find_is_float(std::string_view, bool* value) const { return *value = true; }
};

}  // namespace expr

template <typename Scope>
constexpr ExprValue evaluate(std::string_view text, const Scope& scope) {
  return expr::Reader<Scope>(text, scope, true).read();
}

// What is wrong with a text whatever the values are: its syntax, and each name that `scope` does
// not have, also behind an `or` that no call ever passes. There is no value.
template <typename Scope>
constexpr ExprValue proofread(std::string_view text, const Scope& scope) {
  return expr::Reader<Scope>(text, scope, false).read();
}

constexpr bool is_expression(std::string_view text) {
  return proofread(text, expr::AnyNames{}).ok();
}

// "batch, m, k": calls `axis(text)` for each part between commas that no parentheses hold. Of an
// empty text for none.
template <typename Axis>
constexpr void for_each_axis(std::string_view shape, Axis&& axis) {
  if (shape.find_first_not_of(' ') == std::string_view::npos) return;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= shape.size(); ++i) {
    const char c = i < shape.size() ? shape[i] : ',';
    depth += (c == '(') - (c == ')');
    if (c != ',' || (depth > 0 && i < shape.size())) continue;
    std::string_view part = shape.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    axis(part);
    begin = i + 1;
  }
}

}  // namespace sk

#endif  // SK_LIB_OP_EXPR_H_
