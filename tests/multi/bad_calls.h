// Calls that must be refused, by what they are about.
#ifndef SK_TESTS_MULTI_BAD_CALLS_H_
#define SK_TESTS_MULTI_BAD_CALLS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "sk.h"

namespace sk::testing_ops {

struct BadCall {
  const char* name;
  int32_t code;
  const char* word;  // That the sentence must hold.
  std::function<sk_status(sk_comm*, float* in, float* out)> call;
};

const std::vector<BadCall>& bad_calls();     // Collectives, memory, options, handles.
const std::vector<BadCall>& bad_products();  // And packed weights.
const std::vector<BadCall>& bad_plans();

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_BAD_CALLS_H_
