// Tasks of rows and their kernels.
#include <bit>

#include "lib/exec/cpu/tile/rmsnorm.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

bool has_weight(const int64_t* params) { return (params[kRowsGiven] & kGivenWeight) != 0; }
bool has_second(const int64_t* params) { return (params[kRowsGiven] & kGivenSecond) != 0; }

RmsnormWeight weight_of(const int64_t* params) {
  if (!has_weight(params)) return RmsnormWeight::kNone;
  const bool same = params[kRowsWeightDtype] == params[kRowsDtype];
  return same ? RmsnormWeight::kSame : RmsnormWeight::kF32;
}

void run_forward(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint32_t y = has_weight(p) ? 2 : 1;
  RmsnormArgs rows;
  rows.x = args.pointers[0][0];
  rows.x_pitch = int64_t(args.regions[0].pitch);
  if (has_weight(p)) rows.w = args.pointers[1][0];
  rows.y = args.pointers[y][0];
  rows.y_pitch = int64_t(args.regions[y].pitch);
  if (has_second(p)) rows.rstd = args.pointers[y + 1][0];
  rows.rows = args.regions[0].rows;
  rows.cols = size_t(p[kRowsN]);
  rows.eps = std::bit_cast<double>(p[kRowsEps]);
  rows.hint = store_hint(p[kRowsHint]);
  select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), cpu_isa())(rows);
}

void run_added(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint32_t y = has_weight(p) ? 3 : 2, sum = y + 1;
  RmsnormArgs rows;
  rows.x = args.pointers[0][0];
  rows.x_pitch = int64_t(args.regions[0].pitch);
  rows.residual = args.pointers[1][0];
  rows.residual_pitch = int64_t(args.regions[1].pitch);
  if (has_weight(p)) rows.w = args.pointers[2][0];
  rows.y = args.pointers[y][0];
  rows.y_pitch = int64_t(args.regions[y].pitch);
  rows.sum = args.pointers[sum][0];
  rows.sum_pitch = int64_t(args.regions[sum].pitch);
  if (has_second(p)) rows.rstd = args.pointers[sum + 1][0];
  rows.rows = args.regions[0].rows;
  rows.cols = size_t(p[kRowsN]);
  rows.eps = std::bit_cast<double>(p[kRowsEps]);
  rows.hint = store_hint(p[kRowsHint]);
  select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), cpu_isa())(rows);
}

void run_backward(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint32_t dx = has_weight(p) ? 4 : 3;
  RmsnormBackwardArgs rows;
  rows.dy = args.pointers[0][0];
  rows.dy_pitch = int64_t(args.regions[0].pitch);
  rows.x = args.pointers[1][0];
  rows.x_pitch = int64_t(args.regions[1].pitch);
  rows.rstd = args.pointers[2][0];
  if (has_weight(p)) rows.w = args.pointers[3][0];
  rows.dx = args.pointers[dx][0];
  rows.dx_pitch = int64_t(args.regions[dx].pitch);
  if (has_second(p)) {
    rows.sums = args.pointers[dx + 1][0];
    rows.sums_pitch = int64_t(args.regions[dx + 1].pitch);
  }
  rows.rows = args.regions[0].rows;
  rows.cols = size_t(p[kRowsN]);
  rows.block = size_t(p[kRowsBlock]);
  rows.hint = store_hint(p[kRowsHint]);
  select_rmsnorm_backward(DType(p[kRowsDtype]), weight_of(p), cpu_isa())(rows);
}

}  // namespace

constexpr CpuTile cpu_tiles::kRmsnorm = {
    .choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
      const int64_t* p = shape.params.data();
      return select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), isa) ? run_forward : nullptr;
    }};
constexpr CpuTile cpu_tiles::kAddRmsnorm = {
    .choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
      const int64_t* p = shape.params.data();
      return select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), isa) ? run_added : nullptr;
    }};
constexpr CpuTile cpu_tiles::kRmsnormBackward = {.choose = [](const TileShape& shape,
                                                              CpuIsa isa) -> TileFn {
  const int64_t* p = shape.params.data();
  const RmsnormBackwardFn kernel = select_rmsnorm_backward(DType(p[kRowsDtype]), weight_of(p), isa);
  return kernel != nullptr ? run_backward : nullptr;
}};

}  // namespace sk::cpu
