// Small plans written by hand, so that the plan room's tests need no planner.
#ifndef SK_TESTS_SUPPORT_PLANS_H_
#define SK_TESTS_SUPPORT_PLANS_H_

#include "lib/plan/plan.h"

namespace sk::testing_support {

// All-reduce of mapped operands: each rank reduces its slice of all inputs into all outputs, then
// waits for the other ranks' word that theirs are done.
Plan direct_allreduce(uint32_t ranks, int64_t count, DType dtype = DType::kF32,
                      RedOp redop = RedOp::kSum);

// All-reduce of ordinary memory: each rank copies its input into its staging area, then enters, and
// reduces all staged inputs into its own output.
Plan staged_allreduce(uint32_t ranks, int64_t count);

// The same, but each rank signals each other that its input is staged, and reduces in one task that
// waits for all of these. The last rank copies `late` times 1 MiB of no use before it stages.
Plan signalled_allreduce(uint32_t ranks, int64_t count, uint32_t late);

// Rank 1 copies its input to its output; rank 0 has nothing to do.
Plan idle_rank(int64_t count);

// Rank 0 sends to rank 1 by puts through `slots` slots, each with its own data and credit signal.
Plan put_pipeline(int64_t chunk_count, uint32_t slots, uint64_t chunk_elements = 16);

// Rank 0 sends to rank 1 in pieces, which it copies into mapped workspace one beside the other and
// counts by one signal; rank 1 takes each as soon as so many are there.
Plan counted_pieces(uint32_t pieces, uint64_t piece_elements = 16);

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_PLANS_H_
