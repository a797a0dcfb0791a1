// A plan: per rank, queues of tile tasks with their side tables. Plain data, immutable once built.
//
// Planners (lib/algo) make plans, validate() judges them, executors run them, text.h dumps and
// parses them. A rank keeps its own part only; tests and the validator look at all parts.
#ifndef SK_LIB_PLAN_PLAN_H_
#define SK_LIB_PLAN_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "lib/op/extent.h"
#include "lib/op/op.h"
#include "lib/plan/task.h"

namespace sk {

// What a plan is made for, agreed by all ranks at communicator creation.
struct Target {
  uint32_t world_size = 1;
  bool mapped = true;  // Peers' memory can be loaded and stored (workspace; operands if symmetric).
  uint32_t workers = 1;   // Queues per rank at most.
  uint32_t cores = 0;     // Cores of the host that its ranks share; 0 is unknown.
  uint32_t tile_m = 128;  // Rows and columns of one GEMM tile; the last ones are ragged.
  uint32_t tile_n = 512;
  uint64_t packed_bytes = 0;        // Size of the packed B of this GEMM.
  uint64_t chunk_bytes = 64 << 10;  // Slot size of put pipelines.
  uint32_t slot_count = 4;          // Slots in flight per pair of ranks.
  uint64_t one_shot_bytes = 0;      // At most so many bytes per rank are copied whole, not sliced.
  uint64_t one_shot_symmetric_bytes = 0;  // The same where peers could map the operands instead.
  uint64_t stream_bytes = 2 << 20;        // Outputs of at least so many bytes bypass the caches.
  uint64_t put_bytes_max = UINT64_MAX;    // Of one put: SessionCaps::put_bytes_max.
  uint32_t band_rows =
      0;  // Of a GEMM's TileOrder; 0: 8 where there are 32 workers or more, else 1.
  // From column to column of packed B (packed.h), so that every queue can pack some. 0: the machine
  // has its own order, and one task packs all.
  uint64_t packed_pitch = 0;
  // Products read a B that the caller has not packed as it lies: nothing packs it.
  bool raw_b = false;
  // From one rank to another, at most; plans have as many queues as that allows.
  uint32_t edge_signals_max = UINT32_MAX;
  // How a rank's queues share out what peers may reach: none is given less than the one, where
  // there are several, and where there is enough for it they take turns with runs of the other, so
  // that all of them together go through memory as one would. 0: each has one run.
  uint64_t queue_bytes_min = 128 << 10;
  uint64_t turn_bytes = 0;
  // For each rank the least rank of its host. Empty: all share one, or nothing is known of it.
  std::vector<uint32_t> host_of = {};
  // Collectives have the forms that they have where each rank has a host of its own.
  bool one_level = false;

  bool operator==(const Target&) const = default;
};

enum class BufferKind : uint8_t {
  kInput,      // The caller's; written by `begin`, only read by tasks.
  kOutput,     // The caller's; read by `end`, which may also overwrite it.
  kInOut,      // Both: an in-place operand.
  kWorkspace,  // The communicator's, in the owner's segment; contents do not outlive their use.
};

enum class BufferAccess : uint8_t {
  kLocal,    // Only the owner's tasks touch it.
  kMapped,   // Peers' tasks load and store it.
  kPutOnly,  // Peers reach it with kPut only.
};

// Of the memory in which that operand begins, with those that lie in it.
BufferKind kind_of(const Operands& operands, const OpDesc& op, uint32_t operand);

struct Buffer {
  BufferKind kind = BufferKind::kWorkspace;
  BufferAccess access = BufferAccess::kLocal;
  uint8_t operand = 0;      // Callers' buffers: which argument (0 in or A, 1 out or C, 2 B).
  uint8_t generations = 1;  // Workspace: 1, or 2 for a staging buffer.
  uint32_t owner = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // Workspace: in the owner's workspace area, or staging area.

  bool operator==(const Buffer&) const = default;
};

// A rank's workspace area is touched only between await and end. Its two staging areas serve runs
// of even and odd number, whichever plans they run: a task may write the area of its run before the
// rank enters, because a peer that has entered the run before has ended the one that used the same
// area last. A staging buffer has the same offset in both.
inline constexpr uint64_t kWorkspaceAlign = 64;  // Bytes: a cache line, so that buffers share none.

constexpr uint64_t align_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

// What one rank's tasks add in one run to a signal that another waits for. The run's end has seen
// all of it: some wait's target equals posts_per_run, so that no post is ever late.
struct Signal {
  uint32_t producer;
  uint32_t number;  // On the edge from there.
  uint32_t posts_per_run;

  bool operator==(const Signal&) const = default;
};
inline constexpr uint32_t kNoSignal = UINT32_MAX;

struct RankPlan {
  uint32_t rank = 0;
  std::vector<Signal> signals;  // To this rank, ascending by producer, then by number.
  std::vector<uint32_t> peers;  // Ranks in this rank's entry exchange, ascending, without it.
  std::vector<Queue> queues;    // One per worker; begin precedes, end follows all of them.
  std::vector<Task> tasks;
  std::vector<Region> regions;
  std::vector<int64_t> params;
  std::vector<Wait> waits;
  std::vector<Post> posts;

  // The place of a signal in `signals`, or kNoSignal.
  uint32_t find_signal(uint32_t producer, uint32_t number) const;

  std::span<const Region> regions_of(const Task& task) const {
    return std::span(regions).subspan(task.first_region, task.region_count);
  }
  std::span<const int64_t> params_of(const Task& task) const {
    return std::span(params).subspan(task.first_param, task.param_count);
  }
  std::span<const Wait> waits_of(const Task& task) const {
    return std::span(waits).subspan(task.first_wait, task.wait_count);
  }
  std::span<const Post> posts_of(const Task& task) const {
    return std::span(posts).subspan(task.first_post, task.post_count);
  }
};

// The dimension of a local operation of which a run says how much there is (free_rows.h).
struct FreeDimension {
  uint32_t number = 0;  // In its schema, from 1; 0: none is free.
  uint32_t block = 0;   // The rows of a block, where tasks count those.

  bool operator==(const FreeDimension&) const = default;
};

struct Plan {
  OpDesc op;
  Target target;
  std::vector<Buffer> buffers;  // The same table on every rank.
  std::vector<RankPlan> ranks;  // One part, or all in rank order.
  FreeDimension free = {};
  // Of a plan that is judged part by part (flow.h): what stands for the ranks' parts where ranks
  // find out whether they run the same plan. 0 where all parts do.
  uint64_t flows_hash = 0;

  uint32_t world_size() const { return target.world_size; }
  const RankPlan* part(uint32_t rank) const {
    for (const RankPlan& part : ranks) {
      if (part.rank == rank) return &part;
    }
    return nullptr;
  }
};

// Equal content, however the side tables are laid out. Slices must lie inside their tables.
bool operator==(const Plan& a, const Plan& b);

// Of all that runs of it depend on: op, target, buffers, all ranks' parts (or what stands for
// them), and the versions of the tile operations in them. Ranks that have equal ones run the same
// plan. Never 0, so that a cleared entry slot matches nothing.
uint64_t fingerprint(const Plan& world);

// The plan with the part of `rank` alone, which must be in it.
Plan part_of(const Plan& plan, uint32_t rank);

// Bytes of its workspace area (generations 1) or of each staging area (2) that `rank` must have
// ready before a run.
uint64_t workspace_bytes(const Plan& plan, uint32_t rank, uint8_t generations);

}  // namespace sk

#endif  // SK_LIB_PLAN_PLAN_H_
