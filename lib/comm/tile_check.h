// Whether a user's tile keeps to what its description says, tried on one call's arrays.
#ifndef SK_LIB_COMM_TILE_CHECK_H_
#define SK_LIB_COMM_TILE_CHECK_H_

#include "lib/base/interruption.h"
#include "lib/comm/arguments.h"
#include "lib/tile/user_tile.h"

namespace sk {

// How long that may take where the call does not say.
inline constexpr int64_t kTileCheckNs = 60'000'000'000;

// In forked children, which have copies of the operands; the call's own are only read. SK_ERR_TILE
// with what was found, SK_ERR_TIMEOUT where a child does not end, SK_ERR_ABORTED where the
// interruption is due.
Status check_tile(const UserTile& tile, const Call& call, const Interruption& interruption = {});

}  // namespace sk

#endif  // SK_LIB_COMM_TILE_CHECK_H_
