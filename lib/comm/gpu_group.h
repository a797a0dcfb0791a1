// The ranks of one communicator that share a GPU: threads of this process, who meet in each call.
//
// Persistent kernels that wait for each other must be one launch, so the last rank to come launches
// for all. What they meet in is a call's descriptor; a rank that calls something else is told, like
// all others, and nothing is launched.
#ifndef SK_LIB_COMM_GPU_GROUP_H_
#define SK_LIB_COMM_GPU_GROUP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/comm/gpu_backend.h"
#include "lib/comm/plan_cache.h"

namespace sk {

class GpuGroup {
 public:
  struct Config {
    uint32_t world_size = 1;
    uint32_t workers = 0;  // Of each rank; 0: as many as can be resident.
    bool put_only = false;
  };
  // SK_ERR_UNSUPPORTED where the GPU cannot hold so many ranks at once.
  static Result<std::shared_ptr<GpuGroup>> make(std::shared_ptr<GpuExecutor> executor,
                                                const Config& config);

  GpuExecutor& executor() const { return *executor_; }
  uint32_t world_size() const { return config_.world_size; }
  bool mapped() const { return !config_.put_only; }
  // What plans are made for; the same on all ranks.
  Target target_for(const OpDesc& op) const;

  // One rank's call. Returns the same on all ranks, once all have come: what was launched is under
  // way then, not done. `able` false: this rank only tells the others that it has no memory.
  // Bounded by `timeout_ns` while a rank is missing.
  struct Arrival {
    OpDesc op;
    bool able = true;
    GpuEntry entry;
    int64_t timeout_ns = 0;
  };
  Status meet(uint32_t rank, const Arrival& arrival);

  // Why no call of `rank` can succeed any more, or OK.
  Status over(uint32_t rank);
  // Plans that are ready.
  uint64_t plan_count();

  void abort(uint32_t rank, const std::string& reason);
  // `rank` makes no call any more; those who wait for it are told.
  void leave(uint32_t rank);

 private:
  struct Ready {
    std::unique_ptr<GpuPlan> plan;
    uint64_t last_use = 0;
  };

  GpuGroup(std::shared_ptr<GpuExecutor> executor, const Config& config);
  // The lock is held in these.
  Status why_over(uint32_t rank);
  void end(uint32_t rank, Status why);
  Status wait_for_others(std::unique_lock<std::mutex>& lock, uint32_t rank, const Arrival& arrival);
  std::string missing() const;
  // By the one that came last, while all others wait.
  Status settle();
  Status compare() const;
  Status launch();
  Result<GpuPlan*> ready_for(const OpDesc& op);
  Result<std::unique_ptr<GpuPlan>> prepare(const OpDesc& op);
  void evict();

  const std::shared_ptr<GpuExecutor> executor_;
  const Config config_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;  // By rank, of this meeting; of those who are here.
  std::vector<bool> here_, left_;  // By rank.
  uint32_t here_count_ = 0;
  uint64_t meetings_ = 0;    // That have ended.
  bool launching_ = false;   // All are here; the last one does it for all.
  Status outcome_;           // Of the last meeting.
  Status over_;              // Why there is no further one.
  uint32_t over_by_ = 0;     // The rank that ended it; UINT32_MAX: the GPU.
  uint64_t plan_count_ = 0;  // Of ready_, which only the one that launches looks at.

  PlanCache plans_;
  std::unordered_map<OpDesc, Ready, OpHash> ready_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_GPU_GROUP_H_
