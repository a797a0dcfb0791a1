// Writes one rank's part of a plan: planners say what, the side tables and indices are kept here.
#ifndef SK_LIB_PLAN_BUILDER_H_
#define SK_LIB_PLAN_BUILDER_H_

#include <initializer_list>
#include <span>

#include "lib/plan/plan.h"

namespace sk {

// A one-row region.
constexpr Region flat(uint32_t buffer, uint64_t offset, uint64_t bytes, RegionAccess access,
                      uint32_t buffer_count = 1) {
  return Region{offset, bytes, bytes, 1, buffer, buffer_count, access};
}

class RankBuilder {
 public:
  RankBuilder(uint32_t rank, uint32_t queue_count);

  struct TaskSpec {
    TaskOp op = TaskOp::kNop;
    uint32_t queue = 0;
    bool after_all = false;
    bool posts_in_order = false;
    uint8_t free = 0;  // kFreeRows, kFreeBlocks, or neither.
    std::initializer_list<Region> regions = {};
    std::span<const Region> more_regions = {};  // Behind them.
    std::span<const int64_t> params = {};
    std::span<const Wait> waits = {};
    std::span<const Post> posts = {};
  };
  void add(const TaskSpec& spec);

  // In the order that RankPlan asks for.
  void add_signal(const Signal& signal) { part_.signals.push_back(signal); }
  const std::vector<Signal>& signals() const { return part_.signals; }
  void set_peers(std::vector<uint32_t> peers) { part_.peers = std::move(peers); }

  // Lays the queues' tasks out one after the other and hands the part over.
  RankPlan finish();

 private:
  RankPlan part_;
  std::vector<std::vector<Task>> queues_;
};

}  // namespace sk

#endif  // SK_LIB_PLAN_BUILDER_H_
