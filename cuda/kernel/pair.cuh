// Two blocks of a cluster as one worker: both walk one queue, task by task, and each does its share
// of every task. The first block leads: it alone waits for signals, posts, enters and ends runs.
//
//   leader      waits until a task may start, then tells the other: go, or stop
//   other       fetches no task before it is told; once its share is done says so to the leader
//   leader      posts behind its own share and the other's
//
// So both take the same tasks, and both stop at the same one. Neither waits for anything but the
// other's work on tasks that have started, and what starts a task is bounded by the clock and the
// abort word in the leader: no wait of one outlasts a wait of a single block.
#ifndef SK_CUDA_KERNEL_PAIR_CUH_
#define SK_CUDA_KERNEL_PAIR_CUH_

#include "cuda/kernel/ring.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/watch/waits.cuh"

namespace sk::cuda {

SK_DEVICE bool leads() { return ptx::place_in_cluster() == 0; }

// Slots are told again only once both blocks are done with them: the leader's `empty` says so. By
// whole warps: what each lane has waited for is there for all of the other block.
SK_DEVICE void tell_start(Ring& ring, uint32_t n, bool going) {
  ptx::sync_warp();
  if (!ptx::one_lane()) return;
  ptx::store_there(ptx::there(&ring.pair.stop[slot_of(n)], 1), going ? 0 : 1);
  ptx::release_there(ptx::there(&ring.pair.told[slot_of(n)], 1));
}
SK_DEVICE bool hear_start(const Ring& ring, uint32_t n) {
  wait_in_cluster_at(At::kTold, ring.pair.told[slot_of(n)], phase_of(n), slot_of(n));
  return ring.pair.stop[slot_of(n)] == 0;
}

// Behind all writes of this block; by whole warps.
SK_DEVICE void tell_done(Ring& ring, uint32_t n) {
  if (ptx::one_lane()) ptx::release_there(ptx::there(&ring.pair.done[slot_of(n)], 0));
}
SK_DEVICE void hear_done(const Ring& ring, uint32_t n) {
  wait_in_cluster_at(At::kPairDone, ring.pair.done[slot_of(n)], phase_of(n), slot_of(n));
}

// All threads of the block, before anything of the other's shared memory is touched, and behind
// all that touches this one's.
template <bool pair>
SK_DEVICE void meet_blocks() {
  if constexpr (pair) {
    ptx::arrive_at_cluster();
    ptx::wait_for_cluster();
  }
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_PAIR_CUH_
