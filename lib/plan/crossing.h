// What a plan sends from host to host: counted, so that planners can be held to it.
#ifndef SK_LIB_PLAN_CROSSING_H_
#define SK_LIB_PLAN_CROSSING_H_

#include <vector>

#include "lib/plan/plan.h"

namespace sk {

// Over the link of one host, in one run. Entries are none of it: they are the same in every plan.
struct LinkLoad {
  uint32_t host = 0;  // Its least rank.
  uint64_t bytes_out = 0, bytes_in = 0;
  uint64_t messages_out = 0;  // Puts, and posts of tasks.
};

// Of all hosts of a plan whose parts are all here, ascending; empty where there is one host.
std::vector<LinkLoad> crossing_of(const Plan& world);

// The largest number of bytes that leave a host, and the messages of all.
struct CrossingSum {
  uint64_t bytes_out_max = 0, messages = 0;
};
CrossingSum sum_of(const std::vector<LinkLoad>& loads);

}  // namespace sk

#endif  // SK_LIB_PLAN_CROSSING_H_
