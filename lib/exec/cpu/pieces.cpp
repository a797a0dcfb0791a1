// A task over lists of tensors: what it goes over is cut where one tensor ends and the next begins,
// and its tile runs on each part, as it would on one vector.
#include <algorithm>

#include "lib/exec/cpu/program.h"

namespace sk::cpu {

void CpuProgram::run_in_pieces(uint32_t index, const LoweredTask& task) const {
  const TileArgs& whole = tiles_[index];
  if (args_->pieces == nullptr) return task.fn(whole);
  const Pieces& pieces = *args_->pieces;
  const Task& planned = part_->tasks[index];
  const Along& along = along_[index];

  std::array<int64_t, kPieceParamsMax> params;
  std::copy_n(whole.params, planned.param_count, params.begin());
  std::array<Region, kRegionCountMax> regions;
  std::copy_n(whole.regions, whole.region_count, regions.begin());
  std::array<std::byte*, kRegionCountMax> at;
  TileArgs tile{.regions = regions.data(),
                .pointers = {},
                .params = params.data(),
                .region_count = whole.region_count};
  for (uint32_t i = 0; i < whole.region_count; ++i) tile.pointers[i] = &at[i];

  const auto first = uint64_t(whole.params[along.first]);
  const uint64_t end = first + uint64_t(whole.params[along.count]);
  size_t piece = size_t(std::ranges::upper_bound(pieces.ends, first) - pieces.ends.begin());
  for (uint64_t from = first; from < end; ++piece) {
    const uint64_t begin = piece == 0 ? 0 : pieces.ends[piece - 1];
    const uint64_t to = std::min(end, pieces.ends[piece]);
    params[along.first] = int64_t(from);
    params[along.count] = int64_t(to - from);
    for (uint32_t i = 0; i < whole.region_count; ++i) {
      const Region& of = whole.regions[i];
      const Buffer& buffer = plan_->buffers[of.buffer];
      if (along.bytes[i] != 0) {
        regions[i].offset = of.offset + (from - first) * along.bytes[i];
        regions[i].row_bytes = regions[i].pitch = (to - from) * along.bytes[i];
      }
      at[i] = is_list(plan_->op, buffer)
                  ? pieces.data[buffer.operand][piece] + (from - begin) * along.bytes[i]
                  : buffers_[of.buffer] + regions[i].offset;
    }
    task.fn(tile);
    from = to;
  }
}

}  // namespace sk::cpu
