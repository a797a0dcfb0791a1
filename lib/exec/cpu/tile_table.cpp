#include "lib/exec/cpu/tile_table.h"

#include "lib/plan/task_info.h"
#include "lib/plan/text.h"

namespace sk::cpu {
namespace {

struct Entry {
  TaskOp id;
  const CpuTile* tile;
};
#define SK_LIST_CPU_TILE(name) {TaskOp::name, &cpu_tiles::name},
constexpr Entry kTiles[] = {SK_ALL_TILE_OPS(SK_LIST_CPU_TILE)};
#undef SK_LIST_CPU_TILE

}  // namespace

const CpuTile* cpu_tile(TaskOp id) {
  for (const Entry& entry : kTiles) {
    if (entry.id == id) return entry.tile;
  }
  return nullptr;
}

Result<PreparedTile> prepare_tile(const RankPlan& part, const Task& task) {
  if (const CpuTile* tile = cpu_tile(task.op)) return prepare_tile(part, task, *tile);
  const TileOp* tile = tile_op(task.op);
  if (tile != nullptr && tile->own != nullptr) return PreparedTile{.own = tile};
  if (signature_of(task.op) != nullptr && tile == nullptr) return PreparedTile{};
  return error(SK_ERR_UNSUPPORTED, "rank {}: no kernel for operation {}", part.rank, int(task.op));
}

Result<PreparedTile> prepare_tile(const RankPlan& part, const Task& task, const CpuTile& tile) {
  const TileShape shape{part.regions_of(task), part.params_of(task)};
  if (tile.check != nullptr) {
    const Status status = tile.check(shape);
    if (!status.ok()) return error(status.code(), "rank {}: {}", part.rank, status.message());
  }
  if (const TileFn function = tile.choose(shape, cpu_isa())) {
    return PreparedTile{function, tile.reserve};
  }
  return error(SK_ERR_UNSUPPORTED, "rank {}: this machine has no kernel for a {} like this: {}",
               part.rank, task_op_name(task.op), dump_task(part, task));
}

}  // namespace sk::cpu
