// Times of tasks, kept in the GPU's memory until somebody reads them.
#ifndef SK_CUDA_EXEC_TRACE_H_
#define SK_CUDA_EXEC_TRACE_H_

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/exec/clock.h"
#include "lib/comm/gpu_backend.h"

namespace sk::cuda {

// Of the first tasks of `part`, `times` of each; tasks that did not run have none. A wait begins
// once the block has ended the work before, for it waits ahead.
std::vector<TaskEvent> events_of(const RankPlan& part, std::span<const TaskTimes> times,
                                 const ClockMap& clock);

// One rank's trace. The host gives each launch its place, so kernels count nothing.
class RankTrace final : public GpuTrace {
 public:
  static Result<std::shared_ptr<RankTrace>> start(const Device& device, uint32_t rank,
                                                  uint64_t event_count_max);

  // Where the next launch of `plan` writes, and that it has been made.
  TimesPlace place(const Plan& plan) const;
  void launched(std::shared_ptr<const Plan> plan);

  Result<const TraceBuffer*> read() override;

 private:
  struct Run {
    std::shared_ptr<const Plan> plan;
    uint64_t first, count;
  };
  RankTrace(const Device& device, uint32_t rank, DeviceMemory memory)
      : device_(device), rank_(rank), memory_(std::move(memory)) {}
  const RankPlan& part(const Plan& plan) const { return *plan.part(rank_); }
  abi::DevicePtr time_at(uint64_t index) const;

  const Device& device_;
  const uint32_t rank_;
  const DeviceMemory memory_;  // A ClockReading, then all times.
  Moment started_;

  mutable std::mutex mutex_;  // All below.
  std::vector<Run> runs_;
  uint64_t used_ = 0;
  TraceBuffer read_;  // What was read of runs_, and all that is known without.
};

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_TRACE_H_
