// The reductions of one instruction set.
#ifndef SK_LIB_EXEC_CPU_TILE_REDUCE_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_REDUCE_TABLE_H_

#include "lib/exec/cpu/tile/reduce.h"

namespace sk::cpu {

constexpr int kDTypeCount = 6;
constexpr int kRedOpCount = 5;
constexpr int kMixedCount = 5;  // f32 to bf16, f32 to f16, f64 to f32; bf16 to f32, f16 to f32.

struct ReduceTable {
  ReduceFn any[kDTypeCount][kRedOpCount];  // By dtype and op, both from 0; null: no meaning.
  ReduceFn sum_2_to_1[kDTypeCount];
  ReduceFn sum_2_to_2[kDTypeCount];
  ReduceFn mixed[kMixedCount][kRedOpCount];
};

extern const ReduceTable kReducePortable;
#if defined(__x86_64__)
extern const ReduceTable kReduceAvx2;
extern const ReduceTable kReduceAvx512;
#endif

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_REDUCE_TABLE_H_
