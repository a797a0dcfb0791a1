// The tile kernels behind the operations of the task format.
#ifndef SK_LIB_EXEC_CPU_TILE_TABLE_H_
#define SK_LIB_EXEC_CPU_TILE_TABLE_H_

#include "lib/exec/tile_op.h"
#include "lib/plan/plan.h"

namespace sk::cpu {

// Null for operations that the program itself runs (nop, enter, await, put).
TileFn tile_function(TaskOp op);

// What these kernels ask beyond a valid plan: SK_ERR_UNSUPPORTED where a task of `part` touches
// more buffers at once than they have places for, or cuts B and C where their layouts cannot.
Status check_tile(const RankPlan& part, const Task& task);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_TABLE_H_
