// The kernels of one instruction set.
#ifndef SK_LIB_EXEC_CPU_TILE_ADAMW_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_ADAMW_TABLE_H_

#include "lib/exec/cpu/tile/adamw.h"

namespace sk::cpu {

// By the type of p (f32, f64, bf16, f16); with g of that type, then of f32.
struct AdamwTable {
  AdamwFn step[4][2];
};

extern const AdamwTable kAdamwPortable;
extern const AdamwTable kAdamwAvx2;
extern const AdamwTable kAdamwAvx512;

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_ADAMW_TABLE_H_
