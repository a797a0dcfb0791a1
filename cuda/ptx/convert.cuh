// Conversions between float and the 16-bit formats: to nearest even, as the CPU's; a NaN comes out
// as the format's canonical one.
#ifndef SK_CUDA_PTX_CONVERT_CUH_
#define SK_CUDA_PTX_CONVERT_CUH_

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

SK_DEVICE float bf16_to_f32(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }
SK_DEVICE uint16_t f32_to_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
SK_DEVICE float f16_to_f32(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
SK_DEVICE uint16_t f32_to_f16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_CONVERT_CUH_
