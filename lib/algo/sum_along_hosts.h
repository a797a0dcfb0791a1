// Sums that go from host to host (sum_along_hosts.cpp): of vectors as callers have them, or of what
// ranks make while sums go on.
#ifndef SK_LIB_ALGO_SUM_ALONG_HOSTS_H_
#define SK_LIB_ALGO_SUM_ALONG_HOSTS_H_

#include <functional>
#include <memory>

#include "lib/algo/ops.h"
#include "lib/algo/part.h"
#include "lib/algo/sum_units.h"
#include "lib/plan/flow.h"

namespace sk::algo {

// Of one rank's part: writes the tasks that make what the rank has for the sums.
class TermMaker {
 public:
  virtual ~TermMaker() = default;
  // Before tasks of that time of units.
  virtual void make_until(Part& part, uint64_t time) = 0;
  // Before a task of the first queue that reads what the rank has of `unit`, and is behind all
  // earlier ones of its queue.
  virtual void await(Part& part, const SumUnits::Unit& unit) = 0;
};

struct HostSums {
  SumUnits units;
  DType dtype, out_dtype;  // Of what ranks have, and of results.
  RedOp redop;
  bool scatters = false;  // Results go to the owner of their block alone, else to all.
  // Where a rank has what it has of a unit, and where its result belongs.
  std::function<Region(uint32_t rank, const SumUnits::Unit&unit)> in, out;
  // A part behind its await, with these flows.
  std::function<Part(uint32_t rank, const std::vector<Flow>& flows)> begin;
  // Null: what ranks have is there from the start.
  std::function<std::unique_ptr<TermMaker>(const Part& part)> maker = nullptr;
};

// In each flow's inbox; and how many signals all flows from one rank to another take.
uint32_t slots_along_hosts(const Target& target);
uint32_t lanes_along_hosts(const Target& target);

// Adds what sums need to the layout, behind the buffers of `sums`.
Plan sum_along_hosts(Layout& layout, const Hosts& hosts, const HostSums& sums, Ranks ranks);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_SUM_ALONG_HOSTS_H_
