// The floor of an all-reduce on one machine: a loop over mapped buffers between two barriers.
//
// Each rank adds its 1/R slice straight from all inputs into all outputs: every input byte is read
// once and every output byte written once. No plan, no checks, one shape of work; libsk's time is
// reported as a multiple of this loop's, taken in the same launch.
#ifndef SK_BENCH_E2E_DIRECT_LOOP_H_
#define SK_BENCH_E2E_DIRECT_LOOP_H_

#include "bench/e2e/harness.h"

namespace sk_bench {

struct DirectLoop {
  bench_world* world;
  bench_flag* flags;  // BENCH_RANKS_MAX of them, shared, zero at the start.
  float* in[BENCH_RANKS_MAX];
  float* out[BENCH_RANKS_MAX];
  int64_t count;
  bool non_temporal;  // Stores that bypass the cache: slower while the result fits it.
  uint32_t turn;
};

// One all-reduce (sum) of `count` elements. All ranks call it.
void direct_allreduce(DirectLoop* loop);

// The barrier inside the loop, by itself: one flag store, one poll per peer.
void direct_barrier(DirectLoop* loop);

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_DIRECT_LOOP_H_
