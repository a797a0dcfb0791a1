// Bugs that the machine can be made to have, so that tests can show that they would be noticed.
#ifndef SK_TESTS_DEVHOST_PLANTED_H_
#define SK_TESTS_DEVHOST_PLANTED_H_

#include <atomic>

namespace sk::devhost {

struct Planted {
  bool relaxed_post = false;     // A post orders nothing before it.
  bool no_proxy_fence = false;   // The copy engine need not see what was stored before.
  bool no_post = false;          // Signals stay as they are.
  bool early_done = false;       // A task is posted while one of the warps that do it still does.
  bool early_stage = false;      // Operands are given back while products still read them.
  bool frozen_run = false;       // The run index stays, as a launch argument does in a graph.
  bool no_abort_poll = false;    // Nobody looks at the abort word.
  bool late_look = false;        // No bug: who looks whether a launch may begin comes late.
  bool swapped_offsets = false;  // Of a turned operand: eight rows on for 64 columns on.
  bool first_view = false;       // Every product takes the first rank's A, wherever its own lies.
  // Of two blocks of a cluster that share a panel:
  bool own_arrivals_only = false;  // A stage is free once this block's own work warps have left it.
  bool own_bytes_only = false;     // What the other block loads is not waited for.
  bool own_share_only = false;     // A post is behind this block's writes alone.
  bool no_last_meeting = false;    // A block ends while the other may still touch its memory.
};
inline Planted planted;  // Set before threads are.

// The next arrival of this warp, of whichever block, is lost; -1: none is.
inline std::atomic<int> loses_arrival_of_warp{-1};

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_PLANTED_H_
