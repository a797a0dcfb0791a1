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

// Regions: x, the residual where there is one, weight where it is given, y, the total beside a
// residual, rstd where it is asked for.
template <bool kAdded>
void run_forward(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint32_t weight = kAdded ? 2 : 1, y = has_weight(p) ? weight + 1 : weight;
  const auto at = [&](uint32_t region) { return args.pointers[region][0]; };
  const auto pitch = [&](uint32_t region) { return int64_t(args.regions[region].pitch); };
  RmsnormArgs rows;
  rows.x = at(0), rows.x_pitch = pitch(0);
  if (has_weight(p)) rows.w = at(weight);
  rows.y = at(y), rows.y_pitch = pitch(y);
  if constexpr (kAdded) {
    rows.residual = at(1), rows.residual_pitch = pitch(1);
    rows.sum = at(y + 1), rows.sum_pitch = pitch(y + 1);
  }
  if (has_second(p)) rows.rstd = at(kAdded ? y + 2 : y + 1);
  rows.rows = args.regions[0].rows;
  rows.cols = size_t(p[kRowsN]);
  rows.eps = std::bit_cast<double>(p[kRowsEps]);
  rows.hint = store_hint(p[kRowsHint]);
  select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), cpu_isa())(rows);
}

template <bool kAdded>
TileFn choose_forward(const TileShape& shape, CpuIsa isa) {
  const int64_t* p = shape.params.data();
  return select_rmsnorm(DType(p[kRowsDtype]), weight_of(p), isa) ? run_forward<kAdded> : nullptr;
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

constexpr CpuTile cpu_tiles::kRmsnorm = {.choose = choose_forward<false>};
constexpr CpuTile cpu_tiles::kAddRmsnorm = {.choose = choose_forward<true>};
constexpr CpuTile cpu_tiles::kRmsnormBackward = {.choose = [](const TileShape& shape,
                                                              CpuIsa isa) -> TileFn {
  const int64_t* p = shape.params.data();
  const RmsnormBackwardFn kernel = select_rmsnorm_backward(DType(p[kRowsDtype]), weight_of(p), isa);
  return kernel != nullptr ? run_backward : nullptr;
}};

}  // namespace sk::cpu
