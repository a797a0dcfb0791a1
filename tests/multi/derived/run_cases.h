// Worlds of threads that make calls, each result held against what the schema says it means.
#ifndef SK_TESTS_MULTI_DERIVED_RUN_CASES_H_
#define SK_TESTS_MULTI_DERIVED_RUN_CASES_H_

#include <functional>
#include <vector>

#include "tests/multi/derived/random_call.h"

namespace sk::derived {

// Of SK_TEST_SEED, else any.
uint64_t seed();
// All that a call may be of.
std::vector<const Schema*> schemas();
// Those that more than one rank takes part in.
std::vector<const Schema*> schemas_between_ranks();

// Calls of one setting share a world. `first`: the seed that failures say. `around` is told before
// a world is made, null after.
void run_shapes(const std::vector<Shape>& shapes, Random& random, uint64_t first,
                const std::function<void(const Setting*)>& around = nullptr);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_RUN_CASES_H_
