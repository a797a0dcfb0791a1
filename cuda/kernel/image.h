// A plan as it lies in device memory: what host code builds and the interpreter kernel reads.
//
// One Image per rank. It holds the rank's part of the plan as it is, and where everything lies that
// the tasks touch. What changes from run to run and must survive a graph's replays, the run index
// above all, lies in the rank's own state and is advanced by the kernel itself.
#ifndef SK_CUDA_KERNEL_IMAGE_H_
#define SK_CUDA_KERNEL_IMAGE_H_

#include <cstddef>
#include <cstdint>

#include "cuda/kernel/task_record.h"
#include "lib/plan/packed.h"
#include "lib/plan/task.h"

namespace sk::cuda {

inline constexpr uint32_t kOperandMax = 3;
inline constexpr uint32_t kLaunchRanksMax = 16;  // Ranks of one GPU in one launch.
inline constexpr uint32_t kPointersMax = 64;     // Addresses of one task: buffers of all regions.
inline constexpr uint32_t kViewsMax = 64;  // Matrices that the copy engine reads in one launch.

// What a rank says to a peer when it enters a run, in the peer's memory.
struct Entry {
  uint64_t seq;  // Written last, with release: runs entered so far, this one with it.
  uint64_t fingerprint;
  uint64_t operand[kOperandMax];  // Addresses as this GPU knows them.
  uint64_t unused[3];
};
static_assert(sizeof(Entry) == 64);

// A rank's own words, changed by kernels only.
struct RankState {
  uint64_t run;    // Runs that have ended.
  uint32_t ended;  // Blocks of this run whose queue has ended.
  uint32_t unused;
};

// An address that a task touches, as far as the plan knows it.
struct TaskPlace {
  // In runs of even and odd number; of operands: bytes from where they begin. Either would do for
  // both where all ranks are one launch, for then one run ends before the next begins.
  uint64_t address[2];
  uint32_t owner;
  int32_t operand;  // Of the owner, in its entry; or what follows.
};
inline constexpr int32_t kWorkspacePlace = -1, kNoPlace = -2;
// Of a task's waits those that the fetch warp asks for with the task itself, a lane each.
inline constexpr uint32_t kWaitsAheadMax = 8;

// A peer, as this rank reaches it.
struct Peer {
  uint64_t* signals;
  Entry* entries;  // The peer's [2][world_size], by the run's parity and the sender.
};

struct TaskTimes {
  uint64_t wait_ns, start_ns, end_ns;  // Of the GPU's clock; zero: not run.
};
// Where a launch writes those of a rank's first `count` tasks, by task; none of them: no trace.
struct TimesPlace {
  TaskTimes* first;
  uint64_t count;
};

// A wait and a post with the place of their signal among those of the rank that waits.
struct PlacedWait {
  uint32_t place, target, posts_per_run;
};
struct PlacedPost {
  uint32_t rank, place, add;
};

struct Image {
  uint32_t rank, world_size;
  uint32_t queue_count, peer_count;
  uint32_t places_per_task, waits_ahead_per_task;
  uint64_t fingerprint;
  const Task* tasks;
  const TaskRecord* records;      // By task.
  const TaskPlace* places;        // [task][places_per_task]: all regions' buffers, one by one.
  const PlacedWait* waits_ahead;  // [task][waits_ahead_per_task]: its first ones.
  const PlacedWait* waits;
  const PlacedPost* posts;
  const uint32_t* peers;  // Ranks in the entry exchange.
  const Peer* all;        // By rank, this one too.
  RankState* state;
  uint64_t* signals;
  Entry* entries;  // [2][world_size].
};

// What a block serves: a queue of a rank, with all that the way to its first task needs, in one
// piece; what is asked for one after the other is far away when a launch begins.
struct BlockRole {
  Image image;
  Queue tasks;
  uint32_t rank_index, queue;  // Of those that are launched; of the rank.
};

enum class Verdict : uint32_t {
  kRunning = 0,
  kAborted = 1,
  kTimeout = 2,
  kDesync = 3,   // A peer entered with another operation: `seen` is its fingerprint.
  kBadTask = 4,  // An operation that this kernel has not.
};

// A matrix as the copy engine reads it, in boxes: as the driver encodes it.
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

// Boxes of A and B have kBoxDepth elements of k. A pair's boxes of B are narrow; those of a B
// [k, n] or an A [k, m] have 64 columns, in every kernel.
inline constexpr uint32_t kBoxDepth = 64, kBoxRowsA = 128, kBoxRowsB = 256, kNarrowBoxRowsB = 128;
inline constexpr uint32_t kPairBlocks = 2;  // Of a cluster that does its tasks as one worker.

// What the first worker that failed says. The host zeroes it; it is read once `verdict` is set and
// the launch is over.
struct Control {
  uint32_t verdict;
  uint32_t rank, queue, task;
  uint32_t peer;    // For whom it waited; itself: for nobody yet, aborted before it began.
  uint32_t signal;  // Its place; UINT32_MAX: for its entry.
  uint64_t wanted, seen;
  uint64_t begun = 0;  // So many runs may begin: the first block has looked at the abort word.
};

// Launch parameters; a replayed graph repeats them.
struct LaunchArgs {
  const BlockRole* blocks;
  Control* control;
  uint32_t* abort;      // Anything but zero ends the launch; one that fails sets it. Host memory.
  uint64_t timeout_ns;  // Longest single wait.
  void* operands[kLaunchRanksMax][kOperandMax];  // By rank_index.
  TimesPlace times[kLaunchRanksMax];             // By rank_index.
};
// Those of kernels that multiply boxes. A graph repeats the addresses in the views with the others.
struct BoxLaunchArgs {
  LaunchArgs plan;
  TensorMap views[kViewsMax];
};
static_assert(sizeof(BoxLaunchArgs) <= 32764, "what a launch may carry");
static_assert(offsetof(BoxLaunchArgs, plan) == 0, "kernels without boxes get it as LaunchArgs");

// Parameters of the bare product C = A B, without a plan: row-major A [m, k] and C [m, n], packed
// B.
struct BareGemm {
  const std::byte* a;
  const std::byte* b;
  std::byte* c;
  uint64_t a_pitch, packed_bytes, c_pitch;
  uint32_t m, n, k;
  uint32_t band_rows;         // Of TileOrder.
  uint32_t dtype, out_dtype;  // DType.
  TensorMap views[2];         // A and packed B.
};

// Parameters of the bare packing of B: a matrix [k, n], or [n, k] where it is transposed, rows
// `from_pitch` bytes apart.
struct BareWeights {
  const std::byte* from;
  std::byte* to;
  uint64_t from_pitch, packed_bytes;
  uint64_t k, n;
  uint32_t dtype;  // DType.
  uint32_t transposed;
};
inline constexpr uint32_t kPackThreads = 256;

// The kernels that run plans, by the set of operations that a plan has.
enum KernelId : uint32_t {
  kRunMoves,
  kRunGemms,
  kRunBoxesBf16,
  kRunBoxesF16,
  kRunNarrowBf16,
  kRunNarrowF16,
  kRunPairsBf16,
  kRunPairsF16,
  kRunBoxesKnBf16,  // The same of a B [k, n] as it lies.
  kRunBoxesKnF16,
  kRunNarrowKnBf16,
  kRunNarrowKnF16,
  kRunPairsKnBf16,
  kRunPairsKnF16,
  kRunBoxesKmKnBf16,  // And of an A [k, m].
  kRunBoxesKmKnF16,
  kRunNarrowKmKnBf16,
  kRunNarrowKmKnF16,
  kRunPairsKmKnBf16,
  kRunPairsKmKnF16,
  kKernelCount
};

// What a kernel asks of its launch; it may differ from target to target, so the device says it
// (sk_tell_needs).
struct KernelNeeds {
  uint32_t block_threads;
  uint32_t shared_bytes;
};
struct NeedsArgs {
  KernelNeeds* out;  // By KernelId; what the target has not stays zero.
};

// The GPU's clock (sk_tell_time).
struct ClockReading {
  uint64_t now_ns;
  uint64_t step_ns;  // The least by which it was seen to advance: no time is known better.
};
struct ClockArgs {
  ClockReading* out;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_IMAGE_H_
