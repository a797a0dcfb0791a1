// Executors with one bug each: the CPU executor made to break a rule of lib/plan/task.h or of the
// run protocol, by changing what it is given behind the validator's back.
#ifndef SK_TESTS_MULTI_PLANTED_H_
#define SK_TESTS_MULTI_PLANTED_H_

#include <memory>

#include "lib/exec/executor.h"

namespace sk::testing_ops {

enum class Bug {
  kNone,
  kIgnoresWaits,       // Starts tasks without looking at their signals.
  kIgnoresBase,        // Takes a signal's value for its growth since the run began.
  kPostsBeforeTile,    // Posts, then works.
  kSignalsPutApart,    // Puts bytes without a signal, and posts it beside them.
  kOneStagingArea,     // Uses the same staging memory in every run.
  kForgetsItsOwnWork,  // Leaves out the last tile of a run, but posts for it.
};

std::unique_ptr<Executor> plant(Bug bug, std::unique_ptr<Executor> sound, Ledger& ledger);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_PLANTED_H_
