// The formulas of functions in meanings, in doubles: each is written from its definition alone.
#ifndef SK_TESTS_MULTI_DERIVED_FUNCTIONS_H_
#define SK_TESTS_MULTI_DERIVED_FUNCTIONS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/multi/derived/meaning.h"

namespace sk::derived {

// Of one argument all that the function is inside of, else its one element; empty where the call
// came without it.
using Argument = std::vector<Value>;
// What is bound to its parameters, by name.
struct Bound {
  std::function<double(std::string_view)> of;
  DType sums;  // The type of its sums.

  double operator()(std::string_view name) const { return of(name); }
  double in_type_of_sums(std::string_view name) const {
    return sums == DType::kF64 ? of(name) : double(float(of(name)));
  }
};
// All elements along what it is inside of, or one for all.
using Function = std::function<Argument(std::span<const Argument>, const Bound&)>;

const Function& function_of(std::string_view name);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_FUNCTIONS_H_
