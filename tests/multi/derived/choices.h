// How a call is chosen, one axis after the other: at random, with some of it as it is wanted, or
// all that there is, call after call.
#ifndef SK_TESTS_MULTI_DERIVED_CHOICES_H_
#define SK_TESTS_MULTI_DERIVED_CHOICES_H_

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sk::derived {

using Random = std::mt19937_64;
// Axes by what they are to be.
using Wishes = std::map<std::string, std::string, std::less<>>;

class Choices {
 public:
  explicit Choices(Random& random, Wishes wishes = {})
      : random_(&random), wishes_(std::move(wishes)) {}
  // Goes through the product of all axes that are picked; those that are drawn stay random.
  static Choices of_all(Random& random) {
    Choices all(random);
    all.in_turn_ = true;
    return all;
  }

  // The number of one of `values`, of an axis of the product.
  size_t pick(const std::string& axis, const std::vector<std::string>& values) {
    size_t at = 0;
    if (!in_turn_) {
      at = any(axis, values);
    } else {
      if (depth_ == turns_.size()) turns_.push_back({0, values.size()});
      at = turns_[depth_++].at;
    }
    return note(axis, values, at);
  }
  bool pick_flag(const std::string& axis) { return pick(axis, {"no", "yes"}) == 1; }
  // Of an axis that is not of the product. What is there twice comes twice as often.
  size_t draw(const std::string& axis, const std::vector<std::string>& values) {
    return note(axis, values, any(axis, values));
  }

  bool wants(std::string_view axis, std::string_view value) const {
    const auto wish = wishes_.find(axis);
    return wish != wishes_.end() && wish->second == value;
  }
  // Whether all wishes could be met so far.
  bool kept() const { return kept_; }
  // What was chosen, "axis=value".
  const std::vector<std::string>& features() const { return features_; }

  // In turn: what comes next, from the first axis on; false: there is nothing more.
  bool next() {
    features_.clear();
    depth_ = 0;
    while (!turns_.empty() && turns_.back().at + 1 == turns_.back().count) turns_.pop_back();
    if (turns_.empty()) return false;
    ++turns_.back().at;
    return true;
  }

 private:
  struct Turn {
    size_t at, count;
  };

  size_t any(const std::string& axis, const std::vector<std::string>& values) {
    const auto wish = wishes_.find(axis);
    if (wish == wishes_.end()) return (*random_)() % values.size();
    const auto found = std::find(values.begin(), values.end(), wish->second);
    kept_ &= found != values.end();
    return found == values.end() ? 0 : size_t(found - values.begin());
  }
  size_t note(const std::string& axis, const std::vector<std::string>& values, size_t at) {
    features_.push_back(axis + "=" + values[at]);
    return at;
  }

  Random* random_;
  Wishes wishes_;
  bool in_turn_ = false, kept_ = true;
  std::vector<Turn> turns_;
  size_t depth_ = 0;
  std::vector<std::string> features_;
};

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_CHOICES_H_
