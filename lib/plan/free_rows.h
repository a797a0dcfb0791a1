// Plans for any number of rows: those of an operation whose schema names a free dimension are run
// for as much of it as a run says, from nothing to what they were made for.
//
// Tasks that say so (TaskFlags) go over the free dimension, or over its blocks, by the first range
// of their tile: of that range a run has what lies before its own end, and of each region that is
// projected from it as much. What has nothing left to write only waits and posts.
#ifndef SK_LIB_PLAN_FREE_ROWS_H_
#define SK_LIB_PLAN_FREE_ROWS_H_

#include <span>

#include "lib/plan/plan.h"

namespace sk {

// How much of its free dimension the plan was made for; 0: it has none.
uint64_t free_extent(const Plan& plan);

// Writes what `task` has of its parameters and regions where `extent` of the free dimension are in
// effect; they hold what the plan says of it. False: nothing that it writes is left.
bool put_in_effect(const Plan& plan, const Task& task, uint64_t extent, std::span<int64_t> params,
                   std::span<Region> regions);

// The plan of exactly so much, at most free_extent(): what a run with that does.
Plan in_effect(const Plan& plan, uint64_t extent);

// "", or what is wrong with the plan's free dimension, or with what its tasks say of it.
std::string free_flaw(const Plan& plan);

}  // namespace sk

#endif  // SK_LIB_PLAN_FREE_ROWS_H_
