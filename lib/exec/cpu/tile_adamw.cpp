// Tasks of adamw and their kernels.
#include "lib/exec/cpu/tile/adamw.h"
#include "lib/exec/cpu/tile_table.h"
#include "lib/tile/adamw.h"

namespace sk::cpu {
namespace {

AdamwFn kernel_of(const int64_t* params, CpuIsa isa) {
  return select_adamw(DType(params[kAdamwDtype]), DType(params[kAdamwGradDtype]), isa);
}

void run(const TileArgs& args) {
  const AdamwNumbers by(args.params);
  AdamwArgs step;
  step.p = args.pointers[0][0];
  step.g = args.pointers[1][0];
  step.m = args.pointers[2][0];
  step.v = args.pointers[3][0];
  step.new_p = args.pointers[4][0];
  step.new_m = args.pointers[5][0];
  step.new_v = args.pointers[6][0];
  step.count = size_t(args.params[kAdamwCount]);
  step.m_keeps = by.m_keeps;
  step.m_takes = by.m_takes;
  step.v_keeps = by.v_keeps;
  step.v_takes = by.v_takes;
  step.p_keeps = by.p_keeps;
  step.rate = by.rate;
  step.v_scale = by.v_scale;
  step.eps = by.eps;
  kernel_of(args.params, cpu_isa())(step);
}

}  // namespace

constexpr CpuTile cpu_tiles::kAdamw = {.choose = [](const TileShape& shape, CpuIsa isa) -> TileFn {
  return kernel_of(shape.params.data(), isa) != nullptr ? run : nullptr;
}};

}  // namespace sk::cpu
