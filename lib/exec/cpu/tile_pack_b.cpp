#include "lib/exec/cpu/tile/gemm.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

void run(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kPackDtype]);
  pack_b(select_gemm(dtype), args.pointers[0][0],
         int64_t(args.regions[0].pitch / dtype_bytes(dtype)), p[kPackTransposeB] != 0, p[kPackK],
         p[kPackN], args.pointers[1][0], p[kPackCol0], p[kPackCol1]);
}

Status check(const TileShape& shape) {
  const std::span<const int64_t> p = shape.params;
  if (p[kPackCol0] != 0 || p[kPackCol1] != p[kPackN]) {
    return error(SK_ERR_UNSUPPORTED,
                 "columns {} to {} of {} are packed by themselves, on this machine B is packed "
                 "whole",
                 p[kPackCol0], p[kPackCol1], p[kPackN]);
  }
  return check_packed(tiles::kPackB, shape.regions[1], DType(p[kPackDtype]), p[kPackK], p[kPackN]);
}

TileFn choose(const TileShape& shape, CpuIsa isa) {
  return select_gemm(DType(shape.params[kPackDtype]), isa) == nullptr ? nullptr : run;
}

}  // namespace

constexpr CpuTile cpu_tiles::kPackB = {.check = check, .choose = choose};

}  // namespace sk::cpu
