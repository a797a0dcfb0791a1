#include "tests/multi/derived/changed_steps.h"

#include <functional>

namespace sk::derived {
namespace {

template <typename T, size_t N>
Few<T, N> without(const Few<T, N>& all, size_t at) {
  Few<T, N> out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != at) out.push_back(all[i]);
  }
  return out;
}

std::string text_of(const Access& access) {
  std::string text(access.array);
  if (!access.at.empty()) text += "@" + std::string(access.at);
  text += '[';
  for (size_t i = 0; i < access.index.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::string(access.index[i]);
  return text + ']';
}

std::string text_of(const Fold& fold) {
  std::string text = std::string(fold.monoid) + "(" + std::string(fold.over);
  if (fold.order == OrderKind::kUncut) text += " uncut";
  for (size_t i = 0; i < fold.blocks.size(); ++i)
    text += (i == 0 ? " blocks " : ", ") + std::string(fold.blocks[i]);
  return text + ") ";
}

std::string text_of(const Step& step) {
  std::string text = text_of(step.out) + " = ";
  if (!step.fold.monoid.empty()) text += text_of(step.fold);
  if (step.function.empty()) return text + text_of(step.in[0]);
  text += step.function;
  std::string list;
  for (const std::string_view name : step.inside)
    list += (list.empty() ? "" : ", ") + std::string(name);
  if (!list.empty()) text += "[" + list + "]";
  list.clear();
  for (const Access& access : step.in) list += (list.empty() ? "" : ", ") + text_of(access);
  for (const Binding& each : step.bind)
    list += ", " + std::string(each.parameter) + " = " + std::string(each.value);
  return text + "(" + list + ")";
}

class Changes {
 public:
  explicit Changes(const Steps& right) : right_(right) {}

  std::vector<ChangedSteps> take() {
    for (at_ = 0; at_ < right_.size(); ++at_) {
      if (right_.size() > 1) out_.push_back({"no step makes " + made(), without(right_, at_)});
      step();
      turned("another axis of " + made(), [](Step& is) -> Access& { return is.out; });
      for (size_t i = 0; i < right_[at_].in.size(); ++i) input(i);
    }
    return std::move(out_);
  }

 private:
  std::string made() const { return std::string(right_[at_].out.array); }
  void change(std::string what, const std::function<void(Step&)>& how) {
    Steps steps = right_;
    how(steps[at_]);
    out_.push_back({std::move(what), steps});
  }
  void turned(std::string what, const std::function<Access&(Step&)>& which) {
    Step is = right_[at_];
    const Access& access = which(is);
    if (access.index.size() != 2 || access.index[0] == access.index[1]) return;
    change(std::move(what), [&](Step& step) {
      Access& wrong = which(step);
      std::swap(wrong.index[0], wrong.index[1]);
    });
  }
  void step() {
    const Step& is = right_[at_];
    if (!is.function.empty())
      change("another function makes " + made(), [](Step& step) { step.function = "another"; });
    if (!is.fold.monoid.empty()) {
      const char* other = is.fold.monoid == "max" ? "min" : "max";
      change("another join makes " + made(), [&](Step& step) { step.fold.monoid = other; });
      change("nothing is joined in " + made(), [](Step& step) { step.fold = Fold(); });
    }
    if (is.fold.order == OrderKind::kUncut)
      change("the sum is cut in " + made(),
             [](Step& step) { step.fold.order = OrderKind::kSequence; });
    for (size_t i = 0; i < is.inside.size(); ++i) {
      change("it is not inside of " + std::string(is.inside[i]) + " in " + made(),
             [&](Step& step) { step.inside = without(step.inside, i); });
    }
    for (size_t i = 0; i < is.bind.size(); ++i) {
      change("nothing is bound to " + std::string(is.bind[i].parameter) + " in " + made(),
             [&](Step& step) { step.bind = without(step.bind, i); });
      change("7 is bound to " + std::string(is.bind[i].parameter) + " in " + made(),
             [&](Step& step) { step.bind[i].value = "7"; });
    }
  }
  void input(size_t i) {
    const Step& is = right_[at_];
    const std::string name = std::string(is.in[i].array) + " in " + made();
    turned("another axis of " + name, [i](Step& step) -> Access& { return step.in[i]; });
    if (is.in.size() > 1)
      change("without " + name, [&](Step& step) { step.in = without(step.in, i); });
    if (i + 1 < is.in.size())
      change("in another order: " + name,
             [&](Step& step) { std::swap(step.in[i], step.in[i + 1]); });
    for (size_t other = 0; other < is.in.size(); ++other) {
      if (is.in[other].array == is.in[i].array) continue;
      change("another array for " + name,
             [&](Step& step) { step.in[i].array = is.in[other].array; });
      break;
    }
    if (is.in[i].at.empty())
      change("an entry of " + name, [&](Step& step) { step.in[i].at = "entry"; });
    if (is.in[i].at != is.out.at)
      change("another rank's " + name, [&](Step& step) { step.in[i].at = is.out.at; });
  }

  const Steps& right_;
  size_t at_ = 0;
  std::vector<ChangedSteps> out_;
};

}  // namespace

std::vector<ChangedSteps> changed_steps(const Steps& right) { return Changes(right).take(); }

std::string text_of(const Steps& steps) {
  std::string text;
  for (const Step& step : steps) text += (text.empty() ? "" : "; ") + text_of(step);
  return text;
}

}  // namespace sk::derived
