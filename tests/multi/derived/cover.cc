#include "tests/multi/derived/cover.h"

#include <algorithm>

namespace sk::derived {
namespace {

constexpr size_t kAtRandom = 300;  // Calls of which those are taken that have something new.
constexpr size_t kTries = 2;       // For one pair, of 200 calls each.

}  // namespace

size_t Coverage::add(const Shape& shape) {
  size_t added = 0;
  for (size_t i = 0; i < shape.features.size(); ++i) {
    const std::string& one = shape.features[i];
    const size_t at = one.find('=');
    axes_[one.substr(0, at)].insert(one.substr(at + 1));
    for (size_t j = 0; j < i; ++j) {
      const auto [low, high] = std::minmax(one, shape.features[j]);
      added += pairs_.emplace(low, high).second;
    }
  }
  // An operation of one axis alone, or of none.
  return added + (shape.features.size() < 2 ? 1 : 0);
}

std::string Coverage::text() const {
  std::string out;
  for (const auto& [axis, values] : axes_) {
    out += (out.empty() ? "" : "; ") + axis + ":";
    for (const std::string& value : values) out += " " + value;
  }
  return out;
}

Cover covering_pairs(const Schema& schema, Random& random, const Wishes& wishes, const Ways& ways) {
  Cover out;
  const auto take = [&](std::vector<Shape> shapes) {
    for (Shape& shape : shapes) {
      if (out.coverage.add(shape) != 0) out.shapes.push_back(std::move(shape));
    }
  };
  take(random_shapes(schema, kAtRandom, random, wishes, ways));
  // What is rare by itself is known by now, alone; then it is looked for beside all else.
  const auto axes = out.coverage.axes();
  for (auto one = axes.begin(); one != axes.end(); ++one) {
    for (auto other = axes.begin(); other != one; ++other) {
      for (const std::string& value : one->second) {
        for (const std::string& beside : other->second) {
          const std::string a = one->first + "=" + value, b = other->first + "=" + beside;
          if (out.coverage.has(a, b)) continue;
          Wishes both = wishes;
          both[one->first] = value;
          both[other->first] = beside;
          take(random_shapes(schema, kTries, random, both, ways));
          if (!out.coverage.has(a, b)) out.never.push_back(a + " with " + b);
        }
      }
    }
  }
  return out;
}

}  // namespace sk::derived
