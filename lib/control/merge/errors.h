// The failures of a cell's ranks as one error.
#ifndef SK_LIB_CONTROL_MERGE_ERRORS_H_
#define SK_LIB_CONTROL_MERGE_ERRORS_H_

#include <vector>

#include "lib/control/merge/rank_log.h"
#include "lib/control/rank_set.h"

namespace sk::control {

struct RankFailure {
  uint32_t rank = 0;
  RankError error;
};

// Each rank's own, those that are alike to the last byte as one. Bounded: once they are more than
// 16 MiB, of those that follow only the beginning is told.
std::vector<RankErrors> errors_by_rank(std::vector<RankFailure> failures);

// Equal ones grouped, the earliest first, consequences last. `failures` is not empty.
Event render_errors(const std::vector<RankFailure>& failures, const RankSet& target);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_ERRORS_H_
