// Plans of users' tiles that are cut as somebody else says, on one queue: for those who look
// whether a tile cares.
#ifndef SK_LIB_ALGO_USER_TILE_H_
#define SK_LIB_ALGO_USER_TILE_H_

#include "lib/plan/plan.h"

namespace sk::algo {

// In tiles of so many rows and columns at most, of what is cut; 0: of all. As far as the tile may
// be cut there.
Result<Plan> cut_user_tile(const OpDesc& op, uint64_t rows, uint64_t columns);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_USER_TILE_H_
