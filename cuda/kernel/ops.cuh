// Sets of operations, each of which makes one kernel: what its work warps can do, and what its load
// warp does for them. A set's parties live as long as a queue is walked.
#ifndef SK_CUDA_KERNEL_OPS_CUH_
#define SK_CUDA_KERNEL_OPS_CUH_

#include "cuda/kernel/ring.cuh"
#include "cuda/ptx/target.cuh"
#include "cuda/tile/copy.cuh"
#include "cuda/tile/gemm_f32.cuh"
#include "cuda/tile/gemm_mma.cuh"
#include "cuda/tile/reduce.cuh"
#if SK_HAS_WGMMA
#include "cuda/tile/gemm_boxes.cuh"
#endif

namespace sk::cuda {

inline constexpr uint32_t kWorkWarps = 8;
static_assert(kWorkWarps == kMmaWarps);
static_assert(kWorkWarps * ptx::kLanes == kF32Block / kF32Side * (kF32Block / kF32Side));

template <typename Ops>
struct BlockShared {
  typename Ops::Shared tile;
  Ring ring;
};

// Operations that every set has; `lean`, see copy_tile(). Control tasks have nothing to do here.
template <bool lean>
SK_DEVICE void move(const Team& team, const FetchedTask& task) {
  const TaskOp op = task.task.op;
  if (op == TaskOp::kReduce) reduce_tile<lean>(team, task.record.reduce, task.addresses);
  if (op == TaskOp::kCopy || op == TaskOp::kPut)  // All peers are mapped.
    copy_tile<lean>(team, task.record.copy, task.addresses);
}

// Copies and reductions.
struct MoveOps {
  struct Shared {};
  static constexpr bool kLoads = false, kPair = false;

  SK_DEVICE static bool can(const FetchedTask& task) { return task.task.op < TaskOp::kPackB; }
  SK_DEVICE static void init(BlockShared<MoveOps>&) {}
  SK_DEVICE static void begin_helper() {}
  SK_DEVICE static void begin_worker() {}

  struct Loader {
    SK_DEVICE explicit Loader(const TensorMap*) {}
    SK_DEVICE void load(const FetchedTask&, BlockShared<MoveOps>&) {}
  };
  struct Workman {
    SK_DEVICE void perform(const Team& team, const FetchedTask& task, BlockShared<MoveOps>&) {
      move</*lean=*/false>(team, task);
    }
  };
};

SK_DEVICE bool is_gemm_type(uint8_t field) {
  const DType dtype = DType(field);
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// And packing and products, by the work warps alone.
union GemmOpsShared {
  GemmF32Shared f32;
  GemmMmaShared mma;
};

SK_DEVICE GemmTask product_of(const FetchedTask& task) {
  return GemmTask(task.record.gemm, task.addresses);
}

SK_DEVICE void multiply_alone(const Team& team, const GemmTask& task, GemmOpsShared& shared) {
  if (task.dtype == DType::kF32) {
    gemm_f32(team, task, shared.f32);
  } else {
    gemm_mma(team, task, shared.mma);
  }
}

struct GemmOps {
  using Shared = GemmOpsShared;
  static constexpr bool kLoads = false, kPair = false;

  SK_DEVICE static bool can(const FetchedTask& task) {
    return task.task.op < TaskOp::kGemm ||
           (is_gemm(task.task.op) && is_gemm_type(task.record.gemm.dtype));
  }
  SK_DEVICE static void init(BlockShared<GemmOps>&) {}
  SK_DEVICE static void begin_helper() {}
  SK_DEVICE static void begin_worker() {}

  struct Loader {
    SK_DEVICE explicit Loader(const TensorMap*) {}
    SK_DEVICE void load(const FetchedTask&, BlockShared<GemmOps>&) {}
  };
  struct Workman {
    SK_DEVICE void perform(const Team& team, const FetchedTask& task,
                           BlockShared<GemmOps>& shared) {
      move</*lean=*/false>(team, task);
      if (task.task.op == TaskOp::kPackB) pack_tile(team, task.record.pack, task.addresses);
      if (is_gemm(task.task.op)) multiply_alone(team, product_of(task), shared.tile);
    }
  };
};

#if SK_HAS_WGMMA
// The same, of one type of 16-bit floats, with products by warpgroups from boxes that the load warp
// brings. One type per kernel: with both in one, or with other products beside them, sums that may
// have come from either are kept twice, which takes registers that are not there.
// One layout of B too, for the same reason.
// `pair`: by two blocks of a cluster together.
template <bool bf16, uint32_t cols, bool pair = false, LayoutB layout = LayoutB::kColumns>
struct BoxOps {
  using Shared = GemmBoxShared<cols, pair>;
  using Block = BlockShared<BoxOps>;
  static constexpr bool kLoads = true, kPair = pair;
  static constexpr DType kDtype = bf16 ? DType::kBF16 : DType::kF16;
  static constexpr uint32_t kHelperRegisters = 56, kWorkerRegisters = 224;

  SK_DEVICE static bool can(const FetchedTask& task) {
    return task.task.op < TaskOp::kGemm ||
           (is_gemm(task.task.op) && DType(task.record.gemm.dtype) == kDtype &&
            task.record.gemm.layout_b == layout);
  }
  SK_DEVICE static void init(Block& shared) {
    sk::cuda::init(shared.tile);
    ptx::fence_barrier_init();
  }
  SK_DEVICE static void begin_helper() { ptx::give_registers<kHelperRegisters>(); }
  SK_DEVICE static void begin_worker() { ptx::take_registers<kWorkerRegisters>(); }

  struct Loader {
    const TensorMap* views;
    uint32_t slice = 0;

    SK_DEVICE explicit Loader(const TensorMap* all) : views(all) {
      constexpr uint32_t kFirst = 2;  // Of one rank these are all: A, and B.
      for (uint32_t i = 0; ptx::one_lane() && i < kFirst; ++i) ptx::prefetch_map(all[i]);
    }
    SK_DEVICE void load(const FetchedTask& task, Block& shared) {
      if (is_gemm(task.task.op)) load_boxes<layout>(product_of(task), views, shared.tile, slice);
    }
  };
  struct Workman {
    uint32_t slice = 0;

    SK_DEVICE void perform(const Team& team, const FetchedTask& task, Block& shared) {
      move</*lean=*/true>(team, task);
      if (task.task.op == TaskOp::kPackB) {
        pack_tile(team, task.record.pack, task.addresses);
        ptx::fence_async_proxy();  // The copy engine reads it.
      }
      if (is_gemm(task.task.op))
        GemmBoxes<bf16, layout, cols, pair>(team, product_of(task), shared.tile, slice).run();
    }
  };
};
#endif

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_OPS_CUH_
