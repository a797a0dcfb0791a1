// A tile operation is one record: whatever plans, judges, writes or runs its tasks walks it (ADR
// 15). What an executor runs it with stands with that executor, under the same name.
#ifndef SK_LIB_TILE_TILE_OP_H_
#define SK_LIB_TILE_TILE_OP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/plan/task.h"
#include "lib/tile/signature.h"

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

// What is known of a task before it runs.
struct TileShape {
  std::span<const Region> regions;
  std::span<const int64_t> params;
};

struct TileOp {
  TaskOp id;         // Never reused.
  uint16_t version;  // Grows with what it computes; part of the fingerprint of plans.
  Signature signature;
  // May write the bytes that it reads, where both regions are the same bytes in the same order.
  bool in_place = false;
  TileFn reference;  // Serial, obvious, the oracle.
  // A user's, which has no other functions: false where it says that it failed.
  bool (*own)(const TileOp& tile, const TileArgs& args) = nullptr;
};

// Null for a number that is no tile operation: nothing, or a kind of its own (nop, put, ...).
const TileOp* tile_op(TaskOp id);
std::span<const TileOp* const> all_tile_ops();

}  // namespace sk

#endif  // SK_LIB_TILE_TILE_OP_H_
