// Barrier: the entry exchange is one.
#include "lib/algo/ops.h"
#include "lib/algo/part.h"

namespace sk::algo {

Result<Plan> plan_barrier(const OpDesc& op, const Target& target, Ranks ranks) {
  const Layout layout(op, target);
  Plan plan{.op = op, .target = target, .buffers = {}, .ranks = {}};
  for (const uint32_t rank : ranks) {
    Part part(layout, rank, /*queues=*/1, /*lanes=*/0, [](uint32_t, uint32_t) { return 0u; });
    part.enter(/*after_all=*/false);
    part.await(0);
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

}  // namespace sk::algo
