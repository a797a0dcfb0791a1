// Plans of users' tiles that are cut as somebody else says, on one queue: for those who look
// whether a tile cares.
#ifndef SK_LIB_ALGO_USER_TILE_H_
#define SK_LIB_ALGO_USER_TILE_H_

#include "lib/plan/plan.h"

namespace sk::algo {

// In tiles of `most` rows and columns, of what is cut; 0: of all. As far as the tile may be cut
// there, and in larger ones where there would be more than `tasks_max`.
Result<Plan> cut_user_tile(const OpDesc& op, uint64_t most, uint64_t tasks_max);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_USER_TILE_H_
