// cuda/ptx/quad.cuh on the CPU.
#ifndef SK_CUDA_PTX_QUAD_CUH_
#define SK_CUDA_PTX_QUAD_CUH_

#include <utility>

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

struct QuadWords {
  uint32_t word[4];
};

inline void turn_quads(QuadWords (&words)[kLanesHere]) {
  for (uint32_t first = 0; first < kLanes; first += 4)
    for (uint32_t q = 0; q < 4; ++q)
      for (uint32_t i = 0; i < q; ++i)
        std::swap(words[first + q].word[i], words[first + i].word[q]);
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_QUAD_CUH_
