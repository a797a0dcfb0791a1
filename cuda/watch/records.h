// What kernels that are compiled with SK_WATCH tell of their waits: host and device share it.
#ifndef SK_CUDA_WATCH_RECORDS_H_
#define SK_CUDA_WATCH_RECORDS_H_

#include <cstdint>

namespace sk::cuda {

// Of a block: one that fetches, one that loads, one that posts, the watchman, eight that work.
inline constexpr uint32_t kWatchedWarps = 12, kWatchman = 3, kWatchedWorkWarp = 4;

// What warps of a block wait at.
enum class At : uint32_t {
  kRingEmpty,   // The fetch warp: a slot for the next task.
  kRingFull,    // All others: the next task.
  kRingDone,    // The post warp: all that work on the task.
  kStageEmpty,  // The load warp: a stage that nobody reads any more.
  kStageFull,   // Work warps: boxes of A and B.
  kTold,        // The fetch warp of a pair's second block: go, or stop.
  kPairDone,    // The post warp of its first block: the other's share.
  kTeam,        // Work warps: each other.
  kSignal,      // The fetch warp: what the task waits for; the stage is the signal.
};
inline constexpr uint32_t kWatchedPlaces = 9;

// Where a warp waited when somebody's deadline had passed.
struct StuckWarp {
  uint32_t told;  // 1: it did, and all else is there.
  uint32_t place, stage, parity;
  uint32_t task;  // Of its queue, from 0.
  uint32_t waited_cycles;
};

// Of the last launch; times are of the GPU's clock, zero where it did not come to that.
struct WatchedBlock {
  uint64_t begin_ns, first_task_ns, first_stage_ns, end_ns;
  uint64_t begin_cycles;                            // With begin_ns.
  uint64_t cycles[kWatchedWarps];                   // From the beginning to the end of the queue.
  uint64_t stalled[kWatchedWarps][kWatchedPlaces];  // Of these.
  uint64_t told_ns, told_cycles;                    // When the watchman wrote `stuck`.
  StuckWarp stuck[kWatchedWarps];
};

// What launches are told; lies in the GPU's memory.
struct Watch {
  WatchedBlock* blocks;      // By block, of the host's memory, which outlives what traps.
  uint32_t deadline_cycles;  // Of one wait.
  uint32_t alarm;            // Set by the first block with one in vain: then all blocks tell.
};
struct WatchArgs {  // Launch parameters of sk_begin_watch.
  Watch watch;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_WATCH_RECORDS_H_
