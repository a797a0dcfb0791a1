// The tile kernels behind the operations of the task format.
#ifndef SK_LIB_EXEC_CPU_TILE_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_TABLE_H_

#include "lib/exec/tile_op.h"

namespace sk::cpu {

// Null for operations that the program itself runs (nop, enter, await, put).
TileFn tile_function(TaskOp op);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_TABLE_H_
