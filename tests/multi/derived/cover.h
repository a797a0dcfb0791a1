// Few calls that have every pair of what two axes may be: types, layouts, places, ranks, ways.
#ifndef SK_TESTS_MULTI_DERIVED_COVER_H_
#define SK_TESTS_MULTI_DERIVED_COVER_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/multi/derived/random_call.h"

namespace sk::derived {

// What a set of calls has.
class Coverage {
 public:
  // How many pairs of features the call has that none before it had.
  size_t add(const Shape& shape);

  const std::map<std::string, std::set<std::string>, std::less<>>& axes() const { return axes_; }
  bool has(const std::string& one, const std::string& other) const {
    return pairs_.contains(std::minmax(one, other));
  }
  size_t pairs() const { return pairs_.size(); }
  // "ranks 1 2 3; peers map put; ...": each axis with what was seen of it.
  std::string text() const;

 private:
  std::map<std::string, std::set<std::string>, std::less<>> axes_;
  std::set<std::pair<std::string, std::string>> pairs_;
};

struct Cover {
  std::vector<Shape> shapes;
  Coverage coverage;
  std::vector<std::string> never;  // Pairs that no call was made of in many tries.
};
// Of the calls that have `wishes`: pairs that do not come about by themselves are looked for one by
// one.
Cover covering_pairs(const Schema& schema, Random& random, const Wishes& wishes = {},
                     const Ways& ways = kMapsAndPuts);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_COVER_H_
