// What an operation means and what a tile does, in one notation: steps over arrays.
//
//   part@r[i, j] = sum(l uncut) mul(a@r[i, l], b@r[l, j]); c@q[i, j] = sum(r) part@r[i, j]
//
// A step defines elements of one array by those of others. Names that nothing else has are
// iterators: `i` goes over the axis where it stands alone, `r` behind an `@` over all ranks (of a
// tile: over the entries of a region). Indices are expressions (expr.h) of them. Without a function
// a step moves elements. `sum(r)` in front joins what its iterator goes over, one after another;
// `sum(r blocks 8)` first within each 8; `sum(l uncut)` in an order of its own, by one task. A
// function is known by its name and by what is bound to its parameters, `scale(x[i], by = factor)`;
// `norm[j](x[i, j])` has all of j at once. `part[i // 32] = sum(i uncut) ...` makes an element of
// each 32 that `i` goes over: what is summed is cut there and nowhere else.
#ifndef SK_LIB_OP_STEPS_H_
#define SK_LIB_OP_STEPS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/op/expr.h"

namespace sk {

template <typename T, size_t N>
class Few {
 public:
  constexpr bool push_back(const T& value) {
    if (size_ == N) return false;
    items_[size_++] = value;
    return true;
  }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr const T& operator[](size_t i) const { return items_[i]; }
  constexpr T& operator[](size_t i) { return items_[i]; }

 private:
  std::array<T, N> items_{};
  uint8_t size_ = 0;
};

inline constexpr size_t kAxesMax = 2, kStepsMax = 6, kStepInputsMax = 8, kStepBindingsMax = 8;
inline constexpr size_t kInsideMax = 6;  // Iterators that a function has all of.

struct Access {
  std::string_view array;
  std::string_view at;  // Behind `@`; empty where there is none.
  Few<std::string_view, kAxesMax> index = {};
};

// "i // 32": the number of a block of an iterator. No iterator where an index is no such thing.
struct BlockIndex {
  std::string_view iterator, block;
};
constexpr BlockIndex block_index(std::string_view index) {
  constexpr std::string_view kBy = " // ";
  const size_t at = index.find(kBy);
  if (at == index.npos) return {};
  return {index.substr(0, at), index.substr(at + kBy.size())};
}

// "r * count + i": the i-th of the r-th part, of `count` each. No inner one where an index is no
// such thing.
struct RadixIndex {
  std::string_view outer, parts, inner;
};
constexpr RadixIndex radix_index(std::string_view index) {
  constexpr std::string_view kTimes = " * ", kPlus = " + ";
  const size_t times = index.find(kTimes), plus = index.find(kPlus);
  if (times == index.npos || plus == index.npos || plus < times) return {};
  const size_t parts = times + kTimes.size();
  return {index.substr(0, times), index.substr(parts, plus - parts),
          index.substr(plus + kPlus.size())};
}

enum class OrderKind : uint8_t { kSequence, kBlocks, kUncut };

struct Fold {
  std::string_view monoid;  // Empty: nothing is joined.
  std::string_view over;    // The iterator.
  OrderKind order = OrderKind::kSequence;
  Few<std::string_view, 3> blocks = {};  // Expressions, from the innermost out.
};

struct Binding {
  std::string_view parameter, value;  // Of the function; an expression.
};

struct Step {
  Access out;
  Fold fold;
  std::string_view function;  // Empty: it moves.
  Few<std::string_view, kInsideMax> inside;
  Few<Access, kStepInputsMax> in;
  Few<Binding, kStepBindingsMax> bind;
};

using Steps = Few<Step, kStepsMax>;

namespace steps {

class Reader {
 public:
  constexpr explicit Reader(std::string_view text) : text_(text) {}

  constexpr bool read(Steps* out) {
    while (true) {
      Step step;
      if (!read_step(&step) || !out->push_back(step)) return false;
      if (!take(';')) return at_end();
    }
  }

 private:
  constexpr void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  constexpr bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  constexpr bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  constexpr std::string_view word() {
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && (expr::is_letter(text_[at_]) || expr::is_digit(text_[at_]))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }
  // Up to a comma or a closing bracket of ours.
  constexpr std::string_view expression() {
    skip_blanks();
    const size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == ';')) break;
      depth += (c == '(') - (c == ')');
    }
    size_t end = at_;
    while (end > begin && text_[end - 1] == ' ') --end;
    return text_.substr(begin, end - begin);
  }
  constexpr bool read_step(Step* step) {
    step->out.array = word();
    if (!read_access(&step->out) || !take('=')) return false;
    std::string_view name = word();
    if (!name.empty() && is_fold()) {
      step->fold.monoid = name;
      if (!read_fold(&step->fold)) return false;
      name = word();
    }
    const size_t behind_name = at_;
    if (take('[')) {  // An array's indices, or what a function is inside of.
      if (!skip_brackets()) return false;
      const bool called = take('(');
      at_ = behind_name;
      if (!called) return read_move(name, step);
      take('[');
      do {
        if (!step->inside.push_back(word())) return false;
      } while (take(','));
      if (!take(']')) return false;
    }
    if (!take('(')) return read_move(name, step);
    step->function = name;
    return !name.empty() && read_arguments(step);
  }
  constexpr bool skip_brackets() {
    while (at_ < text_.size() && text_[at_] != ']') ++at_;
    return take(']');
  }
  // Whether "(iterator ...)" follows: no array has its name there alone.
  constexpr bool is_fold() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    const size_t close = rest.find(')');
    return rest.starts_with('(') && close != rest.npos &&
           rest.substr(0, close).find('[') == rest.npos;
  }
  constexpr bool read_fold(Fold* fold) {
    if (!take('(')) return false;
    fold->over = word();
    const std::string_view order = word();
    if (order == "uncut") {
      fold->order = OrderKind::kUncut;
    } else if (order == "blocks") {
      fold->order = OrderKind::kBlocks;
      do {
        if (!fold->blocks.push_back(expression())) return false;
      } while (take(','));
    } else if (!order.empty()) {
      return false;
    }
    return !fold->over.empty() && take(')');
  }
  constexpr bool read_move(std::string_view array, Step* step) {
    Access from{.array = array, .at = {}};
    return read_access(&from) && step->in.push_back(from);
  }
  // Behind the array's name.
  constexpr bool read_access(Access* access) {
    if (access->array.empty()) return false;
    if (take('@')) {
      access->at = word();
      if (access->at.empty()) return false;
    }
    if (!take('[')) return false;
    do {
      const std::string_view index = expression();
      if (index.empty() || !access->index.push_back(index)) return false;
    } while (take(','));
    return take(']');
  }
  constexpr bool read_arguments(Step* step) {
    do {
      const std::string_view name = word();
      if (take('=')) {
        if (name.empty() || !step->bind.push_back({name, expression()})) return false;
        continue;
      }
      Access from{.array = name, .at = {}};
      if (!read_access(&from) || !step->in.push_back(from)) return false;
    } while (take(','));
    return take(')') && !step->in.empty();
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace steps

// False where the text cannot be read. Of an empty text there are no steps.
constexpr bool read_steps(std::string_view text, Steps* out) {
  *out = Steps();
  return text.empty() || steps::Reader(text).read(out);
}

void no_steps_can_be_read_there();  // Nowhere: what calls it does not compile.

// Of ours.
consteval Steps steps_of(std::string_view text) {
  Steps out;
  if (!read_steps(text, &out)) no_steps_can_be_read_there();
  return out;
}

}  // namespace sk

#endif  // SK_LIB_OP_STEPS_H_
