// How a product is cut on the machine that runs it, and its weights.
#ifndef SK_LIB_COMM_GEMM_TILES_H_
#define SK_LIB_COMM_GEMM_TILES_H_

#include "lib/plan/plan.h"

namespace sk {

struct GemmTiles {
  uint32_t tile_m = 0, tile_n = 0;
  uint64_t packed_bytes = 0, packed_pitch = 0;
  bool raw_b = false;

  void apply(Target& target) const {
    target.tile_m = tile_m;
    target.tile_n = tile_n;
    target.packed_bytes = packed_bytes;
    target.packed_pitch = packed_pitch;
    target.raw_b = raw_b;
  }
};

// Weights to be packed: a matrix [k, n], or [n, k] where it is transposed.
struct PackArgs {
  DType dtype;
  const void* b;
  int64_t ldb, k, n;
  bool transpose_b;
};

}  // namespace sk

#endif  // SK_LIB_COMM_GEMM_TILES_H_
