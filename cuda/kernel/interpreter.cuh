// The interpreter: one block walks one queue of a plan to its end. Its warps have parts to play,
// and hand each task on through the ring:
//
//   warp 0        fetches tasks ahead, waits until they may start (fetch.cuh)
//   warp 1        loads boxes of matrices ahead, where the kernel has wgmma (tile/gemm_boxes.cuh)
//   warp 2        waits until all that work on a task are done, and tells others of it
//   warp 3        looks whether the launch may begin; with SK_WATCH then at the others' waits
//                 (watch/waits.cuh)
//   warps 4 - 11  do the tasks, all eight on one at a time
//
// Operations that are not in `Ops` are not in the code of the kernel.
#ifndef SK_CUDA_KERNEL_INTERPRETER_CUH_
#define SK_CUDA_KERNEL_INTERPRETER_CUH_

#include "cuda/kernel/ops.cuh"
#include "cuda/kernel/pair.cuh"

namespace sk::cuda {

inline constexpr uint32_t kFetchWarp = 0, kLoadWarp = 1, kPostWarp = 2, kLookWarp = 3;
inline constexpr uint32_t kFirstWorkWarp = 4;
inline constexpr uint32_t kBlockThreads = (kFirstWorkWarp + kWorkWarps) * ptx::kLanes;
inline constexpr uint32_t kWorkBarrier = 1;
static_assert(kWatchedWarps == kFirstWorkWarp + kWorkWarps && kWatchedWorkWarp == kFirstWorkWarp);
static_assert(kWatchman == kLookWarp);

// The n-th task of the queue, once it is in the ring; null: the queue has ended.
SK_DEVICE FetchedTask* next_task(Ring& ring, uint32_t n) {
  FetchedTask& slot = ring.slots[slot_of(n)];
  wait_at(At::kRingFull, ring.full[slot_of(n)], phase_of(n), slot_of(n));
  begin_task(n);
  return slot.stop ? nullptr : &slot;
}

template <typename Ops>
SK_DEVICE void load_queue(const TensorMap* views, BlockShared<Ops>& shared) {
  typename Ops::Loader loader(views);
  for (uint32_t n = 0; const FetchedTask* task = next_task(shared.ring, n); ++n) {
    if (Ops::can(*task)) loader.load(*task, shared);
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(shared.ring.done[slot_of(n)]);  // It reads the slot no more.
  }
}

template <typename Ops>
SK_DEVICE void work_queue(bool traced, BlockShared<Ops>& shared) {
  Team team{kFirstWorkWarp, kWorkWarps, kWorkBarrier};
  if constexpr (Ops::kPair) {
    team.side = ptx::place_in_cluster();
    team.sides = kPairBlocks;
  }
  typename Ops::Workman workman;
  for (uint32_t n = 0; FetchedTask* task = next_task(shared.ring, n); ++n) {
    if (traced && team.warp() == 0 && ptx::one_lane()) task->start_ns = ptx::timer_ns();
    if (Ops::can(*task)) workman.perform(team, *task, shared);
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(shared.ring.done[slot_of(n)]);
  }
}

template <typename Ops, typename Source>
SK_DEVICE void post_queue(const Source& source, Ring& ring) {
  for (uint32_t n = 0; const FetchedTask* task = next_task(ring, n); ++n) {
    const typename Source::Ahead ahead = source.ask(*task);
    wait_at(At::kRingDone, ring.done[slot_of(n)], phase_of(n), slot_of(n));
    source.finish(ring, n, *task, Ops::can(*task), ahead);
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(ring.empty[slot_of(n)]);
  }
  source.end();
}

// A Source has fetch(ring), look(), traced(), ask(task), which gives an Ahead while the task is
// under way, finish(ring, n, task, able, ahead) and end(). `views`: the launch's, of kernels that
// load boxes.
template <typename Ops, typename Source>
SK_DEVICE void run_block(const Source& source, const TensorMap* views) {
  auto& shared = *reinterpret_cast<BlockShared<Ops>*>(ptx::shared_memory());
  if (ptx::warp() == 0 && ptx::one_lane()) {
    for (uint32_t i = 0; i < kRingSlots; ++i) {
      ptx::init(shared.ring.full[i], 1);
      ptx::init(shared.ring.done[i], kWorkWarps + Ops::kLoads);
      ptx::init(shared.ring.empty[i], 1);
      ptx::init(shared.ring.pair.told[i], 1);
      ptx::init(shared.ring.pair.done[i], 1);
    }
    Ops::init(shared);
  }
  begin_watch();
  ptx::sync_block();
  meet_blocks<Ops::kPair>();
  if (ptx::warp() < kFirstWorkWarp) {
    Ops::begin_helper();
    if (ptx::warp() == kFetchWarp) source.fetch(shared.ring);
    if (ptx::warp() == kLoadWarp && Ops::kLoads) load_queue<Ops>(views, shared);
    if (ptx::warp() == kPostWarp) post_queue<Ops>(source, shared.ring);
    if (ptx::warp() == kLookWarp) source.look();
    keep_watch();
  } else {
    Ops::begin_worker();
    work_queue<Ops>(source.traced(), shared);
  }
  end_watch();
  meet_blocks<Ops::kPair>();
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_INTERPRETER_CUH_
