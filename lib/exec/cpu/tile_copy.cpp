#include <algorithm>
#include <array>

#include "lib/exec/cpu/tile/copy.h"
#include "lib/exec/cpu/tile/hand_over.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

void take_source(const TileArgs& args) {
  if (args.params[kCopyHint] == kTakeInputs) take(args.pointers[0][0], args.regions[0].row_bytes);
}

void run_handed_over(const TileArgs& args) {
  copy_handed_over(args.pointers[1][0], args.pointers[0][0], args.regions[0].row_bytes);
}

void run_row(const TileArgs& args) {
  take_source(args);
  copy(writable(args.pointers[1]), int(args.regions[1].buffer_count), args.pointers[0][0],
       args.regions[0].row_bytes, store_hint(args.params[kCopyHint]));
}

void run_rows(const TileArgs& args) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  take_source(args);
  std::array<int64_t, kPointersMax> pitch;
  std::fill_n(pitch.begin(), dst.buffer_count, int64_t(dst.pitch));
  copy_2d(writable(args.pointers[1]), pitch.data(), int(dst.buffer_count), args.pointers[0][0],
          int64_t(src.pitch), src.rows, src.row_bytes, store_hint(args.params[kCopyHint]));
}

Status check(const TileShape& shape) {
  const Region& dst = shape.regions[1];
  if (dst.rows == 1) return {};
  return check_count(tiles::kCopy, "outputs in rows", dst.buffer_count, kPointersMax);
}

TileFn choose(const TileShape& shape, CpuIsa) {
  if (shape.regions[0].rows != 1) return run_rows;
  const bool handed_over =
      shape.params[kCopyHint] == kHandOver && shape.regions[1].buffer_count == 1;
  return handed_over ? run_handed_over : run_row;
}

}  // namespace

constexpr CpuTile cpu_tiles::kCopy = {.check = check, .choose = choose};

}  // namespace sk::cpu
