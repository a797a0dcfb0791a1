// What a meaning or a tile's form could wrongly say, one thing at a time.
#ifndef SK_TESTS_MULTI_DERIVED_CHANGED_STEPS_H_
#define SK_TESTS_MULTI_DERIVED_CHANGED_STEPS_H_

#include <string>
#include <vector>

#include "lib/op/steps.h"

namespace sk::derived {

struct ChangedSteps {
  std::string what;  // "another axis of x"
  Steps steps;       // Of words that the original has, or of constants.
};
std::vector<ChangedSteps> changed_steps(const Steps& right);

// In the notation that they are read from.
std::string text_of(const Steps& steps);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_CHANGED_STEPS_H_
