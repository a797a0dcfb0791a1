// What kernels whose waits are watched (cuda/watch) have told: who waits where, when a launch was
// ended for that, and of a launch that was not, where its warps lost their time.
#ifndef SK_CUDA_EXEC_WATCHING_H_
#define SK_CUDA_EXEC_WATCHING_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/mem/memory.h"
#include "cuda/watch/records.h"

namespace sk::cuda {

// A share of the time that the warps of one role have, spent at one place.
struct StallShare {
  const char* role;
  const char* place;
  double share;
};

// Nanoseconds from the first block's beginning, of the first that came there; 0: none did.
struct FirstTimes {
  uint64_t begin_ns = 0;                           // Of the GPU's clock.
  uint64_t task_ns = 0, stage_ns = 0, end_ns = 0;  // The end is the last block's.
};

// A sentence: who had waited longest, then all others that waited, alike ones together; "" where no
// launch was ended. `on`: the GPU.
std::string who_waits(std::span<const WatchedBlock> blocks, const std::string& on);

// Of a launch that has ended; of blocks that it had not all is zero.
std::vector<StallShare> stalls_of(std::span<const WatchedBlock> blocks);
FirstTimes first_times_of(std::span<const WatchedBlock> blocks);

// Where kernels write what they tell: the host's memory.
class Watching {
 public:
  // 1.5 s at 2 GHz, but 9 s at an idle GPU's clocks; of 32 bits.
  static constexpr uint32_t kDeadlineCycles = 3'000'000'000;

  static Result<std::unique_ptr<Watching>> begin(const Owner& owner, uint32_t blocks);
  // The driver does not give pinned memory back by itself.
  void free(const Owner& owner);

  std::span<WatchedBlock> blocks() const { return {blocks_, count_}; }

 private:
  Watching(WatchedBlock* blocks, uint32_t count) : blocks_(blocks), count_(count) {}
  WatchedBlock* blocks_;
  const uint32_t count_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_WATCHING_H_
