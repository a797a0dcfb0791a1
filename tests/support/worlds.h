// Random operations with their data, and what must come out: computed straight from include/sk/op.h
// on whole numbers, so that every equality is exact.
#ifndef SK_TESTS_SUPPORT_WORLDS_H_
#define SK_TESTS_SUPPORT_WORLDS_H_

#include <random>
#include <string>

#include "lib/exec/reference.h"
#include "lib/plan/plan.h"

namespace sk::testing_support {

struct Case {
  OpDesc op;
  Target target;
};
// Any operation, size, type, rank count up to `ranks_max`, mapped or not, 1 to 3 workers.
Case random_case(std::mt19937_64& random, uint32_t ranks_max = 16);
std::string describe(const Case& c);

// Whole numbers in every operand of the plan, fresh in every run: floating ones so small that no
// sum of the op is rounded, integer ones that wrap around.
World random_world(const Plan& plan, uint32_t runs, std::mt19937_64& random);

// "" if all outputs are what the op says of the inputs, else a sentence.
std::string first_difference(const Plan& plan, const World& world);

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_WORLDS_H_
