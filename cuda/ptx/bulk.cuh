// Copies by the copy engine (sm_90 and later): boxes of matrices into shared memory.
//
// The engine is another proxy: what ordinary stores wrote, to shared or to global memory, it sees
// only behind fence_async_proxy() of the storing thread, or, for what came from another block, of
// the thread that has acquired it (PTX ISA, "Async proxy").
#ifndef SK_CUDA_PTX_BULK_CUH_
#define SK_CUDA_PTX_BULK_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/mbarrier.cuh"

namespace sk::cuda::ptx {

SK_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Makes initialised barriers known to the copy engine.
SK_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and adds `bytes` to what the phase waits for from the copy engine.
SK_DEVICE void arrive_expecting(MBarrier& barrier, uint32_t bytes) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
          shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}

// The map's box at column x and row y; beyond the matrix zeros. `to` is aligned to 1024 bytes; its
// bytes count for the barrier's phase. Rows of 128 bytes, unit u (16 bytes) of row r at u ^ (r %
// 8).
SK_DEVICE void load_box(std::byte* to, const TensorMap& map, uint32_t x, uint32_t y,
                        MBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
      : "memory");
}
SK_DEVICE void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_BULK_CUH_
