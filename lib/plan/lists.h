// Plans over lists of tensors, and values that runs put into tasks (ADR 22).
//
// A plan knows of a list how many elements it has in all, and takes it for one vector: of which
// tensors that is made, a run says. Tasks go over it by the first range of their tile, along which
// tiles may be cut anywhere, and an executor cuts them where one tensor ends.
#ifndef SK_LIB_PLAN_LISTS_H_
#define SK_LIB_PLAN_LISTS_H_

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/plan/plan.h"

namespace sk {

// How a task goes over vectors: the parameters that have its first element and how many there are,
// and by how many bytes each region goes on with one of them; 0: it does not.
struct Along {
  uint16_t first = 0, count = 0;
  std::array<uint64_t, kRegionCountMax> bytes{};
};
// None where its tile has no such range.
std::optional<Along> along_first_range(const RankPlan& part, const Task& task);

// Whether the buffer's memory is a list's.
bool is_list(const OpDesc& op, const Buffer& buffer);

// "", or what is wrong with how the plan's tasks go over lists.
std::string list_flaw(const Plan& plan);

// Of a part's parameters those that are values of a run.
struct RunValue {
  uint32_t param;   // Index in RankPlan::params.
  uint32_t number;  // Of the operation's runtime attribute among those.
};
std::vector<RunValue> run_values(const RankPlan& part);

// The plan with them in their places: what a run with these does.
Plan with_run_values(Plan plan, std::span<const int64_t> values);

}  // namespace sk

#endif  // SK_LIB_PLAN_LISTS_H_
