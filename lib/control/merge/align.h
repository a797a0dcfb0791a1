// Alignment of several ranks' item lists into columns of what belongs side by side.
#ifndef SK_LIB_CONTROL_MERGE_ALIGN_H_
#define SK_LIB_CONTROL_MERGE_ALIGN_H_

#include <cstdint>
#include <vector>

#include "lib/control/merge/item.h"
#include "lib/control/rank_set.h"

namespace sk::control {

// Ranks that put out the same item at the same place.
struct Group {
  const Item* item = nullptr;
  RankSet ranks;
};

// Groups of one place, the one with the lowest rank first.
using Column = std::vector<Group>;

// One rank's items, in order.
struct RankItems {
  uint32_t rank = 0;
  std::vector<const Item*> items;
};

// Equal items become one group where the order of every rank allows it (longest common
// subsequence, rank by rank); what has no equal stands beside what its peers put out at the same
// place. `ranks` in ascending order; the result depends on the lists only.
std::vector<Column> align(const std::vector<RankItems>& ranks);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_ALIGN_H_
