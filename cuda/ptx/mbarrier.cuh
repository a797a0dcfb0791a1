// Barriers in shared memory on which some threads arrive and others wait, phase by phase.
#ifndef SK_CUDA_PTX_MBARRIER_CUH_
#define SK_CUDA_PTX_MBARRIER_CUH_

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

struct alignas(8) MBarrier {
  uint64_t state;  // Opaque.
};

SK_DEVICE uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Phase 0 begins; each phase ends with the `count`-th arrival. Others may use it after a barrier.
SK_DEVICE void init(MBarrier& barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count)
               : "memory");
}

// By one thread; releases what it did before.
SK_DEVICE void arrive(MBarrier& barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
                   shared_address(&barrier))
               : "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SK_TRY_WAIT "mbarrier.test_wait.parity.shared.b64"
#else
#define SK_TRY_WAIT "mbarrier.try_wait.parity.shared.b64"
#endif

// Whether the phase of this parity has ended; acquires what was done before it did. From sm_90 on
// it sleeps a while before it says no, and takes no turns from other warps meanwhile.
SK_DEVICE bool try_wait(const MBarrier& barrier, uint32_t parity) {
  uint32_t done;
  asm volatile("{\n.reg .pred p;\n" SK_TRY_WAIT " p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(shared_address(&barrier)), "r"(parity)
               : "memory");
  return done != 0;
}

#undef SK_TRY_WAIT

// Not bounded by a clock: who arrives is in this block, and bounded itself.
SK_DEVICE void wait(const MBarrier& barrier, uint32_t parity) {
  while (!try_wait(barrier, parity)) {
  }
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MBARRIER_CUH_
