#include <algorithm>
#include <array>

#include "lib/exec/cpu/tile/reduce.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

uint64_t input_count(std::span<const Region> regions) {
  uint64_t count = 0;
  for (const Region& in : regions.first(regions.size() - 1)) count += in.buffer_count;
  return count;
}
// The pointers of all inputs lie one after the other, in rank order; the last region is out.
int take_inputs(const TileArgs& args) {
  const std::span regions(args.regions, args.region_count);
  const uint64_t count = input_count(regions);
  if (args.params[kReduceHint] == kTakeInputs) {
    for (uint64_t i = 0; i < count; ++i) take(args.pointers[0][i], regions.back().row_bytes);
  }
  return int(count);
}

void run_row(const TileArgs& args) {
  const int in_count = take_inputs(args);
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  const DType dtype = DType(args.params[kReduceDtype]);
  reduce(dtype, RedOp(args.params[kReduceOp]), readable(args.pointers[0]), in_count,
         writable(args.pointers[inputs]), int(out.buffer_count), out.row_bytes / dtype_bytes(dtype),
         store_hint(args.params[kReduceHint]));
}

// Rows, or another type out.
void run_rows(const TileArgs& args) {
  const int in_count = take_inputs(args);
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  std::array<int64_t, kPointersMax> in_pitch, out_pitch;
  uint32_t next = 0;
  for (uint32_t i = 0; i < inputs; ++i) {
    for (uint32_t j = 0; j < args.regions[i].buffer_count; ++j) {
      in_pitch[next++] = int64_t(args.regions[i].pitch);
    }
  }
  std::fill_n(out_pitch.begin(), out.buffer_count, int64_t(out.pitch));
  const DType out_dtype = DType(args.params[kReduceOutDtype]);
  reduce_strided({.in_dtype = DType(args.params[kReduceDtype]),
                  .out_dtype = out_dtype,
                  .op = RedOp(args.params[kReduceOp]),
                  .in = readable(args.pointers[0]),
                  .in_pitch = in_pitch.data(),
                  .in_count = in_count,
                  .out = writable(args.pointers[inputs]),
                  .out_pitch = out_pitch.data(),
                  .out_count = int(out.buffer_count),
                  .rows = out.rows,
                  .row_elements = out.row_bytes / dtype_bytes(out_dtype),
                  .hint = store_hint(args.params[kReduceHint])});
}

bool in_rows(const TileShape& shape) {
  return shape.regions.back().rows != 1 ||
         shape.params[kReduceDtype] != shape.params[kReduceOutDtype];
}

Status check(const TileShape& shape) {
  if (!in_rows(shape)) return {};
  const Region& out = shape.regions.back();
  const int most = out.rows > 1 ? kReduceStridedPointersMax : kPointersMax;
  const TileOp& tile = tiles::kReduce;
  SK_RETURN_IF_ERROR(check_count(tile, "inputs in rows", input_count(shape.regions), most));
  return check_count(tile, "outputs in rows", out.buffer_count, most);
}

TileFn choose(const TileShape& shape, CpuIsa isa) {
  const ReduceFn kernel =
      select_reduce(DType(shape.params[kReduceDtype]), RedOp(shape.params[kReduceOp]),
                    int(input_count(shape.regions)), int(shape.regions.back().buffer_count), isa);
  if (kernel == nullptr) return nullptr;
  return in_rows(shape) ? run_rows : run_row;
}

}  // namespace

constexpr CpuTile cpu_tiles::kReduce = {.check = check, .choose = choose};

}  // namespace sk::cpu
