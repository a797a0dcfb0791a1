// Which ranks of the world the parts of a plan are: all of them, or a few that are numbered anew.
#ifndef SK_LIB_PLAN_CHECK_CAST_H_
#define SK_LIB_PLAN_CHECK_CAST_H_

#include <span>

#include "lib/plan/plan.h"

namespace sk::check {

class Cast {
 public:
  Cast() = default;  // All, in order.
  explicit Cast(std::span<const uint32_t> ranks) : ranks_(ranks) {}

  uint32_t size(const Plan& plan) const {
    return ranks_.empty() ? plan.target.world_size : uint32_t(ranks_.size());
  }
  // The rank of the world that part `number` is.
  uint32_t rank(uint32_t number) const { return ranks_.empty() ? number : ranks_[number]; }

 private:
  std::span<const uint32_t> ranks_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_CAST_H_
