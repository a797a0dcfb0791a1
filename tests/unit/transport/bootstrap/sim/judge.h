// What must hold of every simulation, whatever was drawn.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_JUDGE_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_JUDGE_H_

#include <string>

#include "tests/unit/transport/bootstrap/sim/world.h"

namespace sk::sim {

// Empty where all holds; else a line for each thing that does not, the plan and what became of it.
std::string judge(const Plan& plan, const Outcome& outcome);

// The plan and what became of it.
std::string story(const Plan& plan, const Outcome& outcome);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_JUDGE_H_
