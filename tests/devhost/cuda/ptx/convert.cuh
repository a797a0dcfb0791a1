// cuda/ptx/convert.cuh on the CPU: the conversions of lib/op, with the GPU's canonical NaN.
#ifndef SK_CUDA_PTX_CONVERT_CUH_
#define SK_CUDA_PTX_CONVERT_CUH_

#include "cuda/ptx/thread.cuh"
#include "lib/op/dtype.h"

namespace sk::cuda::ptx {

inline constexpr uint16_t kCanonicalNan = 0x7fff;

inline float bf16_to_f32(uint16_t bits) { return sk::bf16_to_f32(bits); }
inline uint16_t f32_to_bf16(float value) {
  return value != value ? kCanonicalNan : sk::f32_to_bf16(value);
}
inline float f16_to_f32(uint16_t bits) { return sk::f16_to_f32(bits); }
inline uint16_t f32_to_f16(float value) {
  return value != value ? kCanonicalNan : sk::f32_to_f16(value);
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_CONVERT_CUH_
