// What the tasks of plans do to what they hold: one record for each operation of task.h that moves
// or makes anything.
#ifndef SK_LIB_PLAN_EFFECTS_H_
#define SK_LIB_PLAN_EFFECTS_H_

#include "lib/effect/tile.h"
#include "lib/plan/task.h"

namespace sk {

// Null where it leaves nothing in any region.
const effect::Tile* effect_of(TaskOp op);

}  // namespace sk

#endif  // SK_LIB_PLAN_EFFECTS_H_
