// Users' tiles: what one says of itself ends its call and nothing else.
#include <algorithm>

#include "lib/base/float_mode.h"
#include "lib/base/inside_tile.h"
#include "lib/exec/cpu/program.h"
#include "lib/plan/free_rows.h"
#include "lib/plan/text.h"

namespace sk::cpu {

// Once one has failed no further one begins, but tasks go on to wait and post.
void CpuProgram::run_own(uint32_t index, const LoweredTask& task) noexcept {
  if (own_failed_.load(std::memory_order_relaxed)) [[unlikely]]
    return;
  bool done = false;
  Status status = caught([&]() -> Status {
    const InsideTile inside;
    const FloatMode::Kept mode;
    done = task.own->own(*task.own, tiles_[index]);
    return {};
  });
  if (done && status.ok()) [[likely]]
    return;
  Status named = caught([&] {
    // As the call has it: its plan may be one for more rows.
    const Plan called = free_extent_ != 0 ? in_effect(*plan_, extent_) : *plan_;
    const RankPlan& part = *called.part(part_->rank);
    const char* how = status.ok() ? "its function did not return 1, which is done" : "it threw";
    return error(SK_ERR_TILE, "tile {} failed in {}: {}, in the task {}", task.own->signature.name,
                 describe(called.op), how, dump_task(part, part.tasks[index]));
  });
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (own_failed_.load(std::memory_order_relaxed)) return;  // Later failures are no news.
  own_failure_ = std::move(named);
  own_failed_.store(true, std::memory_order_relaxed);
}

// All workers have ended: nobody has more to say.
Status CpuProgram::take_own_failure() {
  if (!own_failed_.load(std::memory_order_relaxed)) [[likely]]
    return {};
  own_failed_.store(false, std::memory_order_relaxed);
  refusal_.refused = true;
  return std::move(own_failure_);
}

}  // namespace sk::cpu
