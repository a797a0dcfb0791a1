// Sets of ranks as sorted vectors, and their text forms "0-3,5", "0-62:2", "!0".
#ifndef SK_LIB_CONTROL_RANK_SET_H_
#define SK_LIB_CONTROL_RANK_SET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace sk::control {

using RankSet = std::vector<uint32_t>;  // Sorted, without duplicates.

RankSet all_ranks(uint32_t world_size);

// "0-3,5"; "0-62:2", every second; "!0,5", all but these; spaces allowed, "" is all.
// SK_ERR_INVALID_ARGUMENT for a text that is no set or an empty one, SK_ERR_OUT_OF_RANGE for a rank
// outside [0, world_size).
Result<RankSet> parse_ranks(std::string_view text, uint32_t world_size);

// {0,1,2,3,5} -> "0-3,5"; two neighbours stay "0,1".
std::string format_ranks(const RankSet& ranks);

// The same for a reader: "0-62:2", and "!0" for all of a larger world but rank 0, where that is
// shorter. `world_size` 0: not known.
std::string brief_ranks(const RankSet& ranks, uint32_t world_size);

// "rank 3", "ranks 0-3,5".
std::string name_ranks(const RankSet& ranks);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_RANK_SET_H_
