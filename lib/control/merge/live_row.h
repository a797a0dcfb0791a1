// The one display that moves while a cell runs: progress bars, and the end of a view that is full.
#ifndef SK_LIB_CONTROL_MERGE_LIVE_ROW_H_
#define SK_LIB_CONTROL_MERGE_LIVE_ROW_H_

#include <string>

#include "lib/control/merge/view.h"

namespace sk::control {

// One line for each group of bars: those that the ranks began at the same point and with the same
// words. "train: min 41 % (rank 6) … max 47 %  12.1…13.0 it/s". "" when there is none.
std::string describe_bars(const RankLogs& logs, const RankSet& target, const ViewStyle& style);

// The last lines of the ranks' output, tagged, a few thousand bytes at most.
std::string describe_tail(const RankLogs& logs, const RankSet& target, const ViewStyle& style);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_LIVE_ROW_H_
