#include "lib/exec/cpu/tile_table.h"

#include "lib/base/article.h"
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

constexpr uint64_t kBytesPerNs = 16,
                   kFlopsPerNs = 128;  // Of one core; near 3 times as many of some.

uint64_t least_ns(const TileShape& shape, uint64_t (*flops)(const TileShape&)) {
  if (flops != nullptr) return flops(shape) / kFlopsPerNs;
  uint64_t bytes = 0;
  for (const Region& each : shape.regions) {
    bytes += each.row_bytes * each.rows * each.buffer_count;
  }
  return bytes / kBytesPerNs;
}

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
  if (tile != nullptr && tile->own != nullptr) {
    const TileShape shape{part.regions_of(task), part.params_of(task)};
    return PreparedTile{.own = tile, .least_ns = least_ns(shape, nullptr)};
  }
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
    return PreparedTile{
        .function = function, .reserve = tile.reserve, .least_ns = least_ns(shape, tile.flops)};
  }
  return error(SK_ERR_UNSUPPORTED, "rank {}: this machine has no kernel for {} like this: {}",
               part.rank, with_article(task_op_name(task.op)), dump_task(part, task));
}

}  // namespace sk::cpu
