// Tasks of rows and their kernels.
#include <bit>

#include "lib/exec/cpu/tile/rmsnorm.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

RmsnormWeight weight_of(DType dtype, DType weight) {
  return weight == dtype ? RmsnormWeight::kSame : RmsnormWeight::kF32;
}
RmsnormWeight given_weight(std::span<const int64_t> params) {
  if (params[kRowsGiven] == 0) return RmsnormWeight::kNone;
  return weight_of(DType(params[kRowsDtype]), DType(params[kRowsWeightDtype]));
}

// Of rows: `x` and the output are regions of that number.
RmsnormArgs rows_of(const TileArgs& args, uint32_t x, uint32_t out) {
  RmsnormArgs rows;
  rows.x = args.pointers[x][0];
  rows.x_pitch = int64_t(args.regions[x].pitch);
  rows.out = args.pointers[out][0];
  rows.out_pitch = int64_t(args.regions[out].pitch);
  rows.rows = args.regions[x].rows;
  rows.cols = size_t(args.params[kRowsN]);
  rows.eps = std::bit_cast<double>(args.params[kRowsEps]);
  rows.hint = store_hint(args.params[kRowsHint]);
  return rows;
}

void run_forward(const TileArgs& args) {
  RmsnormArgs rows = rows_of(args, 0, args.region_count - 1);
  const RmsnormWeight weight = given_weight({args.params, kRowsParamCount});
  if (weight != RmsnormWeight::kNone) rows.w = args.pointers[1][0];
  select_rmsnorm(DType(args.params[kRowsDtype]), weight, cpu_isa())(rows);
}
void run_rms(const TileArgs& args) {
  select_rms(DType(args.params[kRowsDtype]), cpu_isa())(rows_of(args, 0, 1));
}
void run_dx(const TileArgs& args) {
  RmsnormArgs rows = rows_of(args, 1, args.region_count - 1);
  const RmsnormWeight weight = given_weight({args.params, kRowsParamCount});
  rows.dy = args.pointers[0][0];
  rows.dy_pitch = int64_t(args.regions[0].pitch);
  rows.rstd = args.pointers[2][0];
  if (weight != RmsnormWeight::kNone) rows.w = args.pointers[3][0];
  select_rmsnorm_dx(DType(args.params[kRowsDtype]), weight, cpu_isa())(rows);
}
void run_dw(const TileArgs& args) {
  RmsnormArgs columns;
  columns.dy = args.pointers[0][0];
  columns.dy_pitch = int64_t(args.regions[0].pitch);
  columns.x = args.pointers[1][0];
  columns.x_pitch = int64_t(args.regions[1].pitch);
  columns.rstd = args.pointers[2][0];
  columns.out = args.pointers[3][0];
  columns.rows = size_t(args.params[kColumnsM]);
  columns.cols = size_t(args.params[kColumnsCols]);
  const DType dtype = DType(args.params[kColumnsDtype]);
  const RmsnormWeight weight = weight_of(dtype, DType(args.params[kColumnsWeightDtype]));
  select_rmsnorm_dw(dtype, weight, cpu_isa())(columns);
}

}  // namespace

constexpr CpuTile cpu_tiles::kRmsnorm = {
    .choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
      const DType dtype = DType(shape.params[kRowsDtype]);
      return select_rmsnorm(dtype, given_weight(shape.params), isa) ? run_forward : nullptr;
    }};
constexpr CpuTile cpu_tiles::kRms = {.choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
  return select_rms(DType(shape.params[kRowsDtype]), isa) ? run_rms : nullptr;
}};
constexpr CpuTile cpu_tiles::kRmsnormDx = {
    .choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
      const DType dtype = DType(shape.params[kRowsDtype]);
      return select_rmsnorm_dx(dtype, given_weight(shape.params), isa) ? run_dx : nullptr;
    }};
constexpr CpuTile cpu_tiles::kRmsnormDw = {
    .choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
      const DType dtype = DType(shape.params[kColumnsDtype]);
      const DType weight = DType(shape.params[kColumnsWeightDtype]);
      return select_rmsnorm_dw(dtype, weight_of(dtype, weight), isa) ? run_dw : nullptr;
    }};

}  // namespace sk::cpu
