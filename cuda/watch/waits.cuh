// Waits of a block's warps for each other, and for signals. In kernels that are compiled with
// SK_WATCH each warp says in shared memory where it waits, and a warp that has nothing else to do
// looks at that: a wait that is longer than the deadline ends the launch, and before it all blocks
// write who waits where. The same words count where time is lost. In all other kernels these are
// plain waits, and nothing of this is in the code.
//
// Nobody watches the meetings of a whole block or cluster, in which the watchman takes part. Who
// keeps the others from them waits himself, and is seen.
#ifndef SK_CUDA_WATCH_WAITS_CUH_
#define SK_CUDA_WATCH_WAITS_CUH_

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/watch/records.h"

#ifndef SK_WATCH
#define SK_WATCH 0
#endif

namespace sk::cuda {

#if SK_WATCH

// Set by sk_begin_watch, before any other launch.
SK_DEVICE_GLOBAL Watch sk_watch;

// What follows is run by some lanes, mostly one: it asks nothing of the others, who may wait behind
// it for that one at a barrier (ptx::warp_here(), no vote, no shuffle).

// Where a warp waits, since when: one word, so that it is read whole. Zero: nowhere.
SK_DEVICE uint64_t wait_word(At at, uint32_t stage, uint32_t parity) {
  return uint64_t(uint32_t(ptx::cycles())) << 32 | stage << 8 | parity << 7 | (uint32_t(at) + 1);
}
inline constexpr uint64_t kEndedWord = 0x7f;
SK_DEVICE uint32_t place_of(uint64_t word) { return uint32_t(word & 0x7f) - 1; }
// Of 32 bits, more than two seconds.
SK_DEVICE uint32_t cycles_since(uint64_t word) {
  return uint32_t(ptx::cycles()) - uint32_t(word >> 32);
}

// In each block's shared memory.
struct BlockWatch {
  WatchedBlock* out;
  uint64_t waits[kWatchedWarps];
  uint32_t task[kWatchedWarps];
  uint32_t has_stage;  // The first one was seen.
  uint64_t began[kWatchedWarps];
  uint64_t stalled[kWatchedWarps][kWatchedPlaces];
};
SK_DEVICE BlockWatch& block_watch() { return ptx::of_block<BlockWatch>(); }

// By all warps, before the block's first barrier.
SK_DEVICE void begin_watch() {
  if (!ptx::one_lane()) return;
  BlockWatch& mine = block_watch();
  const uint32_t warp = ptx::warp_here();
  if (warp == kWatchedWorkWarp) {  // The one that writes these later.
    WatchedBlock* const out = mine.out = sk_watch.blocks + ptx::block();
    out->begin_ns = ptx::timer_ns();
    out->begin_cycles = ptx::cycles();
    out->first_task_ns = out->first_stage_ns = out->end_ns = 0;
    mine.has_stage = 0;
  }
  mine.task[warp] = 0;
  mine.began[warp] = ptx::cycles();
  for (uint32_t place = 0; place < kWatchedPlaces; ++place) mine.stalled[warp][place] = 0;
  ptx::store_here(&mine.waits[warp], 0);
}

// By all warps but the watchman, behind their queues' ends.
SK_DEVICE void end_watch() {
  if (!ptx::one_lane() || ptx::warp_here() == kWatchman) return;
  BlockWatch& mine = block_watch();
  const uint32_t warp = ptx::warp_here();
  for (uint32_t place = 0; place < kWatchedPlaces; ++place)
    mine.out->stalled[warp][place] = mine.stalled[warp][place];
  mine.out->cycles[warp] = ptx::cycles() - mine.began[warp];
  if (warp == kWatchedWorkWarp) mine.out->end_ns = ptx::timer_ns();
  ptx::store_here(&mine.waits[warp], kEndedWord);
}

// The n-th task of the queue is this warp's now.
SK_DEVICE void begin_task(uint32_t n) {
  if (!ptx::one_lane()) return;
  BlockWatch& mine = block_watch();
  ptx::store_here(&mine.task[ptx::warp_here()], n);
  if (ptx::warp_here() == kWatchedWorkWarp && n == 0) mine.out->first_task_ns = ptx::timer_ns();
}

SK_DEVICE void begin_wait(At at, uint32_t stage, uint32_t parity) {
  if (ptx::one_lane())
    ptx::store_here(&block_watch().waits[ptx::warp_here()], wait_word(at, stage, parity));
}
SK_DEVICE void end_wait(At at) {
  if (!ptx::one_lane()) return;
  BlockWatch& mine = block_watch();
  const uint32_t warp = ptx::warp_here();
  mine.stalled[warp][uint32_t(at)] += cycles_since(mine.waits[warp]);
  ptx::store_here(&mine.waits[warp], 0);
  if (at != At::kStageFull || warp != kWatchedWorkWarp || mine.has_stage != 0) return;
  mine.has_stage = 1;
  mine.out->first_stage_ns = ptx::timer_ns();
}
// Of a wait at several signals, by a lane whose own is not there yet: the time goes on.
SK_DEVICE void wait_goes_on(uint32_t signal) {
  uint64_t& word = block_watch().waits[ptx::warp_here()];
  const uint64_t since = ptx::load_here(&word) >> 32 << 32;
  ptx::store_here(&word, since | signal << 8 | (uint32_t(At::kSignal) + 1));
}

// Writes where each warp waits, gives other blocks time to do so too, and ends the launch.
SK_DEVICE void tell_and_trap() {
  constexpr uint64_t kOthersNs = 100'000'000;
  BlockWatch& mine = block_watch();
  ptx::store_release_sys(&sk_watch.alarm, 1);
  WatchedBlock& out = *mine.out;
  out.told_ns = ptx::timer_ns();
  out.told_cycles = ptx::cycles();
  for (uint32_t warp = 0; warp < kWatchedWarps; ++warp) {
    const uint64_t word = ptx::load_here(&mine.waits[warp]);
    if (word == 0 || word == kEndedWord) continue;
    StuckWarp& stuck = out.stuck[warp];
    stuck.place = place_of(word);
    stuck.stage = uint32_t(word) >> 8;
    stuck.parity = uint32_t(word >> 7) & 1;
    stuck.task = ptx::load_here(&mine.task[warp]);
    stuck.waited_cycles = cycles_since(word);
    ptx::store_release_sys(&stuck.told, 1);
  }
  const uint64_t told_ns = ptx::timer_ns();
  while (ptx::timer_ns() - told_ns < kOthersNs) ptx::pause();
  ptx::trap();
}

// The watchman's part: until all other warps have come to their ends.
SK_DEVICE void keep_watch() {
  if (ptx::warp_here() != kWatchman || !ptx::one_lane()) return;
  BlockWatch& mine = block_watch();
  const uint32_t deadline_cycles = sk_watch.deadline_cycles;
  for (bool all_ended = false; !all_ended; ptx::rest()) {
    all_ended = true;
    bool waits = false, in_vain = false;
    for (uint32_t warp = 0; warp < kWatchedWarps; ++warp) {
      const uint64_t word = ptx::load_here(&mine.waits[warp]);
      if (warp == kWatchman || word == kEndedWord) continue;
      all_ended = false;
      waits = waits || word != 0;
      in_vain = in_vain || (word != 0 && cycles_since(word) > deadline_cycles);
    }
    if (in_vain || (waits && ptx::load_relaxed_sys(&sk_watch.alarm) != 0)) tell_and_trap();
  }
}

#else

SK_DEVICE void begin_watch() {}
SK_DEVICE void end_watch() {}
SK_DEVICE void keep_watch() {}
SK_DEVICE void begin_task(uint32_t) {}
SK_DEVICE void begin_wait(At, uint32_t, uint32_t) {}
SK_DEVICE void end_wait(At) {}
SK_DEVICE void wait_goes_on(uint32_t) {}

#endif

// Until the phase of this parity has ended. `stage`: which of several barriers of this kind.
SK_DEVICE void wait_at(At at, const ptx::MBarrier& barrier, uint32_t parity, uint32_t stage = 0) {
  begin_wait(at, stage, parity);
  ptx::wait(barrier, parity);
  end_wait(at);
}

// The same, where threads of the cluster's other block arrive.
SK_DEVICE void wait_in_cluster_at(At at, const ptx::MBarrier& barrier, uint32_t parity,
                                  uint32_t stage) {
  begin_wait(at, stage, parity);
  ptx::wait_in_cluster(barrier, parity);
  end_wait(at);
}

// All warps of a team, which has hardware barrier `id`; as ptx::sync_warps().
SK_DEVICE void meet_team(uint32_t id, uint32_t threads) {
  begin_wait(At::kTeam, 0, 0);
  ptx::sync_warps(id, threads);
  end_wait(At::kTeam);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_WATCH_WAITS_CUH_
