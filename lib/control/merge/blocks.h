// The order in which aligned lines are read: where ranks differ, each rank's lines together.
#ifndef SK_LIB_CONTROL_MERGE_BLOCKS_H_
#define SK_LIB_CONTROL_MERGE_BLOCKS_H_

#include <vector>

#include "lib/control/merge/align.h"

namespace sk::control {

// Lines that all of `target` share, displays and notes keep their place. The lines between them
// come rank by rank, so that a frame or an array stays whole; ranks that have the same lines there
// come as one. Where much would be shown again and again like this, ranks that share most of their
// lines are one block, in which the rule holds anew. Every rank's own order stays; stdout and
// stderr take turns as often as they did on the ranks.
std::vector<Column> in_blocks(const std::vector<Column>& columns, const RankSet& target);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_BLOCKS_H_
