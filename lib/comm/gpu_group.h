// The ranks of one communicator that share a GPU: threads of this process, who meet in each call.
//
// Persistent kernels that wait for each other must be one launch, so the last rank to come launches
// for all. What they meet in is a call's descriptor; a rank that calls something else is told, like
// all others, and nothing is launched. Two ranks that send and receive meet by themselves: their
// launch has only their blocks.
#ifndef SK_LIB_COMM_GPU_GROUP_H_
#define SK_LIB_COMM_GPU_GROUP_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
  // Blocks of one rank, where they multiply or where they move.
  uint32_t workers(bool multiply) const;
  // What plans are made for; the same on all ranks.
  Target target_for(const OpDesc& op) const;

  // One rank's call. Returns the same on all ranks, once all have come: what was launched is under
  // way then, not done. `able` false: this rank only tells the others that it has no memory.
  // Bounded by `timeout_ns`; where the one that launches is inside the driver for longer, what it
  // was given may still be used.
  struct Arrival {
    OpDesc op;
    bool able = true;
    GpuEntry entry;
    int64_t timeout_ns = 0;
  };
  Status meet(uint32_t rank, const Arrival& arrival);
  // Waits until all that was launched has ended, at most so long.
  Status drain(int64_t timeout_ns);

  // Why no call of `rank` can succeed any more, or OK.
  Status over(uint32_t rank);
  // Plans that are ready.
  uint64_t plan_count();

  void abort(uint32_t rank, const std::string& reason);
  // `rank` makes no call any more; those who wait for it are told.
  void leave(uint32_t rank);

 private:
  using Clock = std::chrono::steady_clock;
  struct Ready {
    std::unique_ptr<GpuPlan> plan;
    uint64_t last_use = 0;
  };
  // Of all ranks, or of the two of a pair; again and again.
  struct Meeting {
    std::vector<uint32_t> ranks;
    std::vector<Arrival> arrivals;  // By rank of the world; of those who are here.
    std::vector<bool> here;         // By rank of the world.
    uint32_t here_count = 0;
    uint64_t ended = 0;                 // How often.
    std::optional<uint32_t> launcher;   // All are here; this one does it for all,
    Clock::time_point launching_since;  // since then.
    Status outcome;                     // Of the last time.

    bool needs(uint32_t rank) const;
  };

  GpuGroup(std::shared_ptr<GpuExecutor> executor, const Config& config);
  // The lock is held in these.
  Status why_over(uint32_t rank);
  void end(uint32_t rank, Status why);
  void end_for_want(uint32_t rank, const Status& why);
  Meeting& meeting_of(const OpDesc& op);
  Meeting make_meeting(std::vector<uint32_t> ranks) const;
  Status check_peers(uint32_t rank, const Meeting& meeting, const OpDesc& op);
  Status wait_for_others(std::unique_lock<std::mutex>& lock, Meeting& meeting, uint32_t rank,
                         const Arrival& arrival);
  Status give_up(const Meeting& meeting, uint32_t rank, const Arrival& arrival);
  // By the one that came last, while all others of the meeting wait.
  Status settle(const Meeting& meeting);
  Status compare(const Meeting& meeting) const;
  Status launch(const Meeting& meeting);
  bool begin_launching(int64_t timeout_ns);
  void end_launching();
  Result<GpuPlan*> ready_for(const OpDesc& op, int64_t timeout_ns);
  Result<std::unique_ptr<GpuPlan>> prepare(const OpDesc& op, int64_t timeout_ns);
  void evict(size_t count_max, int64_t timeout_ns);

  const std::shared_ptr<GpuExecutor> executor_;
  const Config config_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Meeting all_;
  std::map<std::pair<uint32_t, uint32_t>, Meeting> pairs_;  // The lower rank first.
  std::vector<Meeting*> at_;                                // By rank: where it waits, or null.
  std::vector<bool> left_;                                  // By rank.
  uint32_t launching_ = 0;                                  // Meetings that launch.
  Status over_;                                             // Why there is no further meeting.
  uint32_t over_by_ = 0;           // The rank that ended them; UINT32_MAX: the GPU.
  std::atomic<bool> torn_{false};  // An exception has left a launch.
  uint64_t plan_count_ = 0;        // Of ready_.

  // One launches at a time, and has all below. Not a timed mutex, of whose bounded lock
  // ThreadSanitizer knows nothing.
  bool has_launcher_ = false;
  uint64_t launches_ = 0;
  PlanCache plans_;
  std::unordered_map<OpDesc, Ready, OpHash> ready_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_GPU_GROUP_H_
