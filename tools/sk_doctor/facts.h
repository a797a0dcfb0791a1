// What each rank of a job says of itself and its machine, and where ranks differ.
#ifndef SK_TOOLS_SK_DOCTOR_FACTS_H_
#define SK_TOOLS_SK_DOCTOR_FACTS_H_

#include <string>
#include <vector>

#include "tools/sk_doctor/finding.h"
#include "tools/sk_doctor/library.h"

namespace sk::doctor {

// Of this rank: "host", "sk", "libsk", "isa", "gpus", "driver", "environment", "limits", and under
// "findings" what of its machine is a limit or a fault.
Json own_facts(const Probe& library, const Findings& findings);

// What of these is a limit or a fault.
void add_findings(const Findings& findings, Json* facts);

std::string host_of(const Json& facts);

// A finding for each thing in which ranks differ, with the ranks of each value; and one for each
// limit and fault of a machine, with the ranks that have it.
void compare_facts(const std::vector<Json>& facts, Findings* findings);

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_FACTS_H_
