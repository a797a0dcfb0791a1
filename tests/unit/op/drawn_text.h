// Expressions that are drawn with their values: the oracle of expr_test.cc and expr_python_test.cc.
#ifndef SK_TESTS_UNIT_OP_DRAWN_TEXT_H_
#define SK_TESTS_UNIT_OP_DRAWN_TEXT_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace sk {

struct DrawnScope {
  std::map<std::string, int64_t, std::less<>> names;
  std::map<std::string, bool, std::less<>> operands;  // Whether they are floats.

  bool find(std::string_view name, int64_t* value) const { return found_in(names, name, value); }
  bool find_is_float(std::string_view operand, bool* value) const {
    return found_in(operands, operand, value);
  }

 private:
  template <typename Values, typename Value>
  static bool found_in(const Values& values, std::string_view name, Value* value) {
    const auto found = values.find(name);
    if (found == values.end()) return false;
    *value = found->second;
    return true;
  }
};

inline const DrawnScope kScope{
    {{"m", 7}, {"k", 300}, {"world", 4}, {"zero", 0}, {"huge", INT64_MAX}},
    {{"x", true}, {"index", false}}};

// SK_SEED=N replays one.
inline uint64_t drawn_seed() {
  const char* given = std::getenv("SK_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// Trees that are evaluated as they are drawn, and written out with more parentheses and blanks than
// they need.
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

  // Of the language's parts in any order, or a text of it with no fault, one or two.
  std::string any_text() {
    std::string text;
    if (random_() % 4 == 0) {
      for (size_t i = random_() % 12; i > 0; --i) text += part();
      return text;
    }
    text = tree(1 + random_() % 3).text;
    for (size_t i = random_() % 3; i > 0; --i) {
      const size_t at = random_() % (text.size() + 1);
      if (random_() % 2) text.erase(at, 1 + random_() % 3);
      if (random_() % 2) text.insert(std::min(at, text.size()), part());
    }
    return text;
  }

 private:
  const char* part() {
    static constexpr const char* kParts[] = {
        "m",     "k",         "x",    "zero", "(",      ")",  "+",     "-",     "*",
        "//",    "%",         "==",   "!=",   "<",      ">=", " and ", " or ",  " not ",
        "min(",  "max(",      ",",    ", ",   "0",      "12", "007",   "cdiv(", " ",
        "index", "is_float(", " in ", "typo", "_",      "/",  "=",     " if ",  "class",
        "min",   "is_float",  ".",    "#",    " else ", "M",  "~",     ":"};
    return kParts[random_() % std::size(kParts)];
  }
  Drawn atom() {
    switch (random_() % 40) {
      case 0:
        return {"typo", std::nullopt, 6};
      case 1:
        return {"is_float(typo)", std::nullopt, 6};
      case 2:
        return {"is_float(x)", 1, 6};
      case 3:
        return {"is_float( index )", 0, 6};
      default:
        break;
    }
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
    return a && all == (*a != 0) ? b : a;
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

}  // namespace sk

#endif  // SK_TESTS_UNIT_OP_DRAWN_TEXT_H_
