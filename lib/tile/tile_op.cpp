#include "lib/tile/tile_op.h"

#include "lib/tile/all.h"
#include "lib/tile/user_table.h"

namespace sk {
namespace {

#define SK_LIST_TILE_OP(name) &tiles::name,
constexpr const TileOp* kTileOps[] = {SK_ALL_TILE_OPS(SK_LIST_TILE_OP)};
#undef SK_LIST_TILE_OP

// Their numbers follow each other, so that a task's record is found by one.
#define SK_LIST_NUMBER(name) TaskOp::name,
constexpr TaskOp kNumbers[] = {SK_ALL_TILE_OPS(SK_LIST_NUMBER)};
#undef SK_LIST_NUMBER
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kNumbers); ++i) {
    if (size_t(kNumbers[i]) != size_t(kNumbers[0]) + i) return false;
  }
  return true;
}
static_assert(in_order());
static_assert(size_t(kNumbers[0]) + std::size(kNumbers) == kTaskOpCount);

}  // namespace

const TileOp* tile_op(TaskOp id) {
  if (id >= TaskOp::kUserFirst) return user_tile(id);
  const size_t index = size_t(id) - size_t(kNumbers[0]);
  return index < std::size(kTileOps) ? kTileOps[index] : nullptr;
}

std::span<const TileOp* const> all_tile_ops() { return kTileOps; }

}  // namespace sk
