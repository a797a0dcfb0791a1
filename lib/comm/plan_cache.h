// Plans of one communicator by what is asked: made and validated once, while somebody holds them.
#ifndef SK_LIB_COMM_PLAN_CACHE_H_
#define SK_LIB_COMM_PLAN_CACHE_H_

#include <memory>
#include <unordered_map>

#include "lib/plan/plan.h"

namespace sk {

// How many plans a communicator keeps ready at most.
inline constexpr size_t kCachedPlansMax = 512;

struct OpHash {
  size_t operator()(const OpDesc& op) const { return size_t(op.hash()); }
};

// `op` as plans have it: with whether the caller's memory is symmetric, a bit for each operand, of
// those that their schema lets peers reach.
OpDesc with_symmetry(OpDesc op, uint32_t symmetric);

class PlanCache {
 public:
  // All ranks' parts. `target` is always the same for the same `op`.
  Result<std::shared_ptr<const Plan>> get(const OpDesc& op, const Target& target);
  // That of `rank` at least, which is enough where plans of `op` are judged part by part.
  Result<std::shared_ptr<const Plan>> get(const OpDesc& op, const Target& target, uint32_t rank);

 private:
  template <typename Make>
  Result<std::shared_ptr<const Plan>> known_or(const OpDesc& op, const Make& make);

  std::unordered_map<OpDesc, std::weak_ptr<const Plan>, OpHash> made_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_PLAN_CACHE_H_
