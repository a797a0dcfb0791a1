// cuda/ptx/target.cuh on the CPU: everything.
#ifndef SK_CUDA_PTX_TARGET_CUH_
#define SK_CUDA_PTX_TARGET_CUH_

#define SK_HAS_WGMMA 1

#endif  // SK_CUDA_PTX_TARGET_CUH_
