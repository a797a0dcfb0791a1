// The kernels of one instruction set.
#ifndef SK_LIB_EXEC_CPU_TILE_RMSNORM_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_RMSNORM_TABLE_H_

#include "lib/exec/cpu/tile/rmsnorm.h"

namespace sk::cpu {

// By type (f32, f64, bf16, f16), then by weight.
struct RmsnormTable {
  RmsnormFn forward[4][3];
  RmsnormBackwardFn backward[4][3];
};

extern const RmsnormTable kRmsnormPortable;
extern const RmsnormTable kRmsnormAvx2;
extern const RmsnormTable kRmsnormAvx512;

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_RMSNORM_TABLE_H_
