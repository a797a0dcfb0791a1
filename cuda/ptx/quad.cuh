// Four neighbouring lanes of a warp, which hold parts of one row, trade them.
#ifndef SK_CUDA_PTX_QUAD_CUH_
#define SK_CUDA_PTX_QUAD_CUH_

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

struct QuadWords {
  uint32_t word[4];
};

// Word i of lane q (of the four) becomes word q of lane i. By whole warps: halves of 2 x 2 words
// are turned among neighbours first, then whole halves among lanes two apart.
SK_DEVICE void turn_quads(QuadWords (&words)[kLanesHere]) {
  uint32_t* const w = words[0].word;
  const bool odd = threadIdx.x % 2 != 0, high = threadIdx.x / 2 % 2 != 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
    w[i] = odd ? got : w[i];
    w[i + 1] = odd ? w[i + 1] : got;
  }
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, high ? w[i] : w[i + 2], 2);
    w[i] = high ? got : w[i];
    w[i + 2] = high ? w[i + 2] : got;
  }
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_QUAD_CUH_
