// Which ranks a cell is for, as people and front ends write it.
#ifndef SK_LIB_CONTROL_TARGET_H_
#define SK_LIB_CONTROL_TARGET_H_

#include <string>
#include <string_view>

#include "lib/control/rank_set.h"

namespace sk::control {

// What the words mean at the moment.
struct Ranks {
  uint32_t world_size = 0;
  RankSet alive;     // Those that can run cells.
  std::string host;  // Where all of them run; "" when that is not known.
};

// "" and "all": every rank, whether it can or not. "alive"; "one", the lowest of those; "local" and
// "host:NAME"; else a set like "0-3,5". SK_ERR_INVALID_ARGUMENT or SK_ERR_OUT_OF_RANGE with a
// sentence; SK_ERR_PEER_LOST where a word means no rank.
Result<RankSet> choose_ranks(std::string_view text, const Ranks& ranks);

// What of it can be told before the cell's turn.
Status check_ranks(std::string_view text, uint32_t world_size);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_TARGET_H_
