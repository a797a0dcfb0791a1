// Calls as plans that the reference runs, in whatever order their tasks allow: what tests change to
// see that somebody finds out.
#ifndef SK_TESTS_MULTI_DERIVED_ON_REFERENCE_H_
#define SK_TESTS_MULTI_DERIVED_ON_REFERENCE_H_

#include <map>
#include <string>
#include <vector>

#include "lib/exec/reference.h"
#include "lib/plan/plan.h"
#include "tests/multi/derived/random_call.h"

namespace sk::derived {

struct Planned {
  Case call;
  Plan plan;
};

// Of a call of this shape, in small pieces, so that there are several of each.
Target target_of(const Shape& shape, Random& random);

// A plan of so many tasks that judging it again and again takes long.
bool is_long(const Plan& plan);

// Calls that have all pairs of what calls may be, at most `count` of them, drawn, and their plans,
// which are valid and right. Of at most eight ranks and not too many tasks, each operand in memory
// of its own.
std::vector<Planned> planned_calls(const Schema& schema, size_t count, Random& random);

// Two runs. What the reference says of them where it cannot end them is in `said`.
World run(const Case& call, const Plan& plan, uint64_t seed, std::string* said);
// "" where all ranks of all runs have what the call is to make.
std::string wrong_in(const Case& call, const World& world);
// Both.
std::string wrong_on_reference(const Case& call, const Plan& plan, uint64_t seed);

// How often something was changed, found out, or changed nothing after all.
struct Tally {
  int planted = 0, seen = 0, harmless = 0;
};
using Tallies = std::map<std::string, Tally>;
void print(const Tallies& tallies);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_ON_REFERENCE_H_
