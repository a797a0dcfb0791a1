// What CPU threads run the tasks of a tile operation with; found by the operation's record.
#ifndef SK_LIB_EXEC_CPU_TILE_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_TABLE_H_

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/plan/plan.h"
#include "lib/tile/all.h"

namespace sk::cpu {

using Reserve = Status (*)();

struct CpuTile {
  // What its kernels ask beyond a valid plan: SK_ERR_UNSUPPORTED where a task touches more buffers
  // at once than they have places for, or cuts what their layouts cannot. Null: nothing.
  Status (*check)(const TileShape& shape) = nullptr;
  // Of a shape that passed the check; null where no kernel does it.
  TileFn (*choose)(const TileShape& shape, CpuIsa isa);
  // Makes sure of the scratch memory of the thread that calls it. Null: it needs none.
  Reserve reserve = nullptr;
  // Floating-point operations of a task whose time they are. Null: its bytes are.
  uint64_t (*flops)(const TileShape& shape) = nullptr;
};

namespace cpu_tiles {

#define SK_DECLARE_CPU_TILE(name) extern const CpuTile name;
SK_ALL_TILE_OPS(SK_DECLARE_CPU_TILE)
#undef SK_DECLARE_CPU_TILE

}  // namespace cpu_tiles

// Null for a number that is no tile operation.
const CpuTile* cpu_tile(TaskOp id);

// What one task runs with.
struct PreparedTile {
  // Null for the kinds that the program itself runs, for users' tiles, and for them alone.
  TileFn function = nullptr;
  Reserve reserve = nullptr;
  const TileOp* own = nullptr;  // A user's, whose function may fail.
  uint64_t least_ns = 0;        // Of a tile: it takes at least about so long on a core of today.
};
Result<PreparedTile> prepare_tile(const RankPlan& part, const Task& task);
Result<PreparedTile> prepare_tile(const RankPlan& part, const Task& task, const CpuTile& tile);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_TABLE_H_
