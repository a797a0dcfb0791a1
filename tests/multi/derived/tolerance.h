// Whether a result is what it must be, as far as its type and the order of its sums allow.
#ifndef SK_TESTS_MULTI_DERIVED_TOLERANCE_H_
#define SK_TESTS_MULTI_DERIVED_TOLERANCE_H_

#include <cmath>
#include <limits>

#include "tests/multi/derived/elements.h"
#include "tests/multi/derived/meaning.h"

namespace sk::derived {

// The largest finite number, and half of the smallest: what is below is rounded away.
struct Ends {
  double largest, lost;
};
inline Ends ends_of_type(DType type) {
  switch (type) {
    case DType::kF16:
      return {65504, 0x1p-25};
    case DType::kBF16:
      return {0x1.fep127, 0x1p-134};
    case DType::kF32:
      return {0x1.fffffep127, 0x1p-150};
    default:
      return {std::numeric_limits<double>::max(), 0};
  }
}

// By how much a result of that type may differ: half a step where it is rounded once, and what sums
// of so many terms may lose in any order (Higham, Accuracy and Stability of Numerical Algorithms,
// 3.1: so many units of half a step each, of the sum of magnitudes).
inline double tolerance(const Value& value, DType type) {
  if (value.exact || !is_float(type)) return 0;
  const double sums = value.size * step_of(accumulator(type)) / 2 * (value.roundings + 1) * 1.01;
  return (std::fabs(value.value) + sums) * step_of(type) / 2 * 1.01 + sums + value.lost +
         ends_of_type(type).lost + (type == DType::kF64 ? 0x1p-1060 : 0);
}

inline bool is_right(double got, const Value& value, DType type) {
  if (std::isnan(value.value)) return std::isnan(got);  // Any NaN.
  if (value.exact) return got == value.value && std::signbit(got) == std::signbit(value.value);
  if (std::isinf(value.value)) return got == value.value;
  // Nothing but zeros was added or multiplied: IEEE says which zero that is.
  if (is_float(type) && value.size == 0 && value.lost == 0)
    return got == 0 && std::signbit(got) == std::signbit(value.value);
  const double may_differ = tolerance(value, type);
  // What is beyond the largest number is an infinity, of either sign where the sums allow both.
  if (is_float(type) && std::isinf(got))
    return (got > 0 ? value.value : -value.value) + may_differ > ends_of_type(type).largest;
  return std::fabs(got - value.value) <= may_differ;
}

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_TOLERANCE_H_
