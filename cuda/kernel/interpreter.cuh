// The interpreter: one block walks one queue of a plan to its end.
//
// Warp 0 fetches (fetch.cuh); warps 4 to 11 do the tasks, all eight on one task at a time, and post
// what they have done. Operations that are not in `Ops` are not in the code of the kernel.
#ifndef SK_CUDA_KERNEL_INTERPRETER_CUH_
#define SK_CUDA_KERNEL_INTERPRETER_CUH_

#include "cuda/kernel/post.cuh"
#include "cuda/tile/gemm_f32.cuh"
#include "cuda/tile/gemm_mma.cuh"
#include "cuda/tile/reduce.cuh"

namespace sk::cuda {

inline constexpr uint32_t kFetchWarp = 0;
inline constexpr uint32_t kFirstWorkWarp = 4, kWorkWarps = 8;
inline constexpr uint32_t kBlockThreads = (kFirstWorkWarp + kWorkWarps) * ptx::kLanes;
inline constexpr uint32_t kWorkBarrier = 1;
static_assert(kWorkWarps == kMmaWarps);
static_assert(kWorkWarps * ptx::kLanes == kF32Block / kF32Side * (kF32Block / kF32Side));

// Which operations a kernel can do beside the control tasks.
struct MoveOps {
  static constexpr bool kGemm = false;
};
struct GemmOps {
  static constexpr bool kGemm = true;
};

template <typename Ops>
struct BlockShared {
  Ring ring;
};
template <>
struct BlockShared<GemmOps> {
  Ring ring;
  union {
    GemmF32Shared f32;
    GemmMmaShared mma;
  };
};

// False: this kernel cannot do it.
template <typename Ops>
SK_DEVICE bool perform(const Team& team, const FetchedTask& slot, BlockShared<Ops>& shared) {
  const TileArgs tile{slot.regions, slot.params, slot.pointers, slot.first_pointer,
                      slot.task.region_count};
  switch (slot.task.op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
      return true;
    case TaskOp::kPut:  // All peers' memory is mapped here.
    case TaskOp::kCopy:
      copy_tile(team, tile);
      return true;
    case TaskOp::kReduce:
      reduce_tile(team, tile);
      return true;
    case TaskOp::kPackB:
      if constexpr (Ops::kGemm) pack_tile(team, tile);
      return Ops::kGemm;
    case TaskOp::kGemm:
      if constexpr (Ops::kGemm) {
        const GemmTask gemm(tile);
        if (gemm.dtype == DType::kF32) {
          gemm_f32(team, gemm, shared.f32);
          return true;
        }
        if (gemm.dtype == DType::kBF16 || gemm.dtype == DType::kF16) {
          gemm_mma(team, gemm, shared.mma);
          return true;
        }
      }
      return false;
  }
  return false;
}

template <typename Ops>
SK_DEVICE void work_queue(const Worker& worker, BlockShared<Ops>& shared) {
  const Team team{kFirstWorkWarp, kWorkWarps, kWorkBarrier};
  const Image& image = worker.image;
  Ring& ring = shared.ring;
  for (uint32_t n = 0;; ++n) {
    FetchedTask& slot = ring.slots[slot_of(n)];
    ptx::wait(ring.full[slot_of(n)], phase_of(n));
    if (slot.stop) break;
    const uint64_t start_ns = image.times != nullptr ? ptx::timer_ns() : 0;
    const bool able = perform<Ops>(team, slot, shared);
    team.sync();  // All writes of the task are done; see post_all().
    if (team.warp() == 0) {
      if (able) {
        if (slot.task.op == TaskOp::kEnter) enter(worker, slot.run);
        post_all(image, slot.task);
      } else if (ptx::one_lane()) {
        fail(worker.args, Verdict::kBadTask,
             {0, image.rank, worker.queue, slot.index, image.rank, 0, 0, uint64_t(slot.task.op)});
      }
      if (image.times != nullptr && ptx::one_lane())
        image.times[slot.index] = {slot.wait_ns, start_ns, ptx::timer_ns()};
    }
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(ring.empty[slot_of(n)]);
  }
  team.sync();
  const bool complete = ptx::load_relaxed_sys(&worker.args.control->verdict) ==
                    uint32_t(Verdict::kRunning);
  if (team.warp() == 0 && ptx::one_lane() && complete)
    end_queue(image, ptx::load_relaxed_sys(&image.state->run));
}

template <typename Ops>
SK_DEVICE void run_block(const LaunchArgs& args) {
  auto& shared = *reinterpret_cast<BlockShared<Ops>*>(ptx::shared_memory());
  if (ptx::warp() == 0 && ptx::one_lane()) {
    for (uint32_t i = 0; i < kRingSlots; ++i) {
      ptx::init(shared.ring.full[i], 1);
      ptx::init(shared.ring.empty[i], kWorkWarps);
    }
  }
  ptx::sync_block();
  const BlockRole role = args.blocks[ptx::block()];
  const Worker worker{args, args.images[role.image], role.image, role.queue};
  if (ptx::warp() == kFetchWarp) {
    fetch_queue(worker, shared.ring);
  } else if (ptx::warp() >= kFirstWorkWarp) {
    work_queue<Ops>(worker, shared);
  }
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_INTERPRETER_CUH_
