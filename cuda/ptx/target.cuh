// What the architecture that this code is compiled for can do.
#ifndef SK_CUDA_PTX_TARGET_CUH_
#define SK_CUDA_PTX_TARGET_CUH_

// Products by warpgroups and boxes by the copy engine: sm_90a alone.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SK_HAS_WGMMA 1
#else
#define SK_HAS_WGMMA 0
#endif

#endif  // SK_CUDA_PTX_TARGET_CUH_
