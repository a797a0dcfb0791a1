// What a tile operation is to an executor: its name, its operands, and a function per executor.
#ifndef SK_LIB_EXEC_TILE_OP_H_
#define SK_LIB_EXEC_TILE_OP_H_

#include <cstddef>
#include <cstdint>

#include "lib/plan/task.h"

namespace sk {

// A task's operands with addresses: pointers[i][j] is where region i starts in its j-th buffer
// (the region's offset is already added).
struct TileArgs {
  const Region* regions;
  std::byte* const* pointers[kRegionCountMax];
  const int64_t* params;
  uint32_t region_count = 0;
};
using TileFn = void (*)(const TileArgs&);

struct TileOp {
  TaskOp op;
  const char* name;  // As in the text form.
  uint8_t region_count_min, region_count_max;
  uint8_t param_count;
  TileFn reference;  // Serial, obvious, the oracle; null for control tasks (nop, enter, await).
};

// The record of `op`, or null for a number that is no operation.
const TileOp* tile_op(TaskOp op);
const TileOp* tile_op(const char* name);

}  // namespace sk

#endif  // SK_LIB_EXEC_TILE_OP_H_
