// Elements of every type, as the sums they go into: float for floats of up to 32 bits, double for
// double, 64-bit integers for integers, which wrap around.
#ifndef SK_CUDA_TILE_ELEMENT_CUH_
#define SK_CUDA_TILE_ELEMENT_CUH_

#include <bit>

#include "cuda/ptx/convert.cuh"
#include "lib/op/dtype.h"

namespace sk::cuda {

template <typename Sum>
SK_DEVICE Sum load_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Sum(*reinterpret_cast<const float*>(at));
    case DType::kF64:
      return Sum(*reinterpret_cast<const double*>(at));
    case DType::kBF16:
      return Sum(ptx::bf16_to_f32(*reinterpret_cast<const uint16_t*>(at)));
    case DType::kF16:
      return Sum(ptx::f16_to_f32(*reinterpret_cast<const uint16_t*>(at)));
    case DType::kI32:
      return Sum(*reinterpret_cast<const int32_t*>(at));
    case DType::kI64:
      return Sum(*reinterpret_cast<const int64_t*>(at));
  }
  return Sum();
}

template <typename Sum>
SK_DEVICE void store_element(DType dtype, std::byte* at, Sum value) {
  switch (dtype) {
    case DType::kF32:
      *reinterpret_cast<float*>(at) = float(value);
      return;
    case DType::kF64:
      *reinterpret_cast<double*>(at) = double(value);
      return;
    case DType::kBF16:
      *reinterpret_cast<uint16_t*>(at) = ptx::f32_to_bf16(float(value));
      return;
    case DType::kF16:
      *reinterpret_cast<uint16_t*>(at) = ptx::f32_to_f16(float(value));
      return;
    case DType::kI32:
      *reinterpret_cast<int32_t*>(at) = int32_t(value);
      return;
    case DType::kI64:
      *reinterpret_cast<int64_t*>(at) = int64_t(value);
      return;
  }
}

template <typename Sum>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<int64_t> = true;

// include/sk/op.h: minimum and maximum of a NaN and anything is a NaN.
template <typename Sum>
SK_DEVICE Sum join(RedOp op, Sum a, Sum b) {
  if constexpr (kIsInteger<Sum>) {
    if (op == RedOp::kSum) return Sum(uint64_t(a) + uint64_t(b));
    if (op == RedOp::kProd) return Sum(uint64_t(a) * uint64_t(b));
  } else {
    if (op == RedOp::kSum || op == RedOp::kAvg) return a + b;
    if (op == RedOp::kProd) return a * b;
    if (a != a) return a;
    if (b != b) return b;
  }
  return op == RedOp::kMin ? (b < a ? b : a) : (a < b ? b : a);
}

// Floats of one type in 32-bit words.
template <DType dtype>
struct Packed {
  static_assert(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16);
  static constexpr uint32_t kPerWord = dtype == DType::kF32 ? 1 : 2;

  SK_DEVICE static float get(uint32_t word, uint32_t which) {
    if constexpr (dtype == DType::kF32) return std::bit_cast<float>(word);
    const auto bits = uint16_t(word >> (16 * which));
    return dtype == DType::kBF16 ? ptx::bf16_to_f32(bits) : ptx::f16_to_f32(bits);
  }
  // The bits of `value`, to be or-ed into a word.
  SK_DEVICE static uint32_t put(float value, uint32_t which) {
    if constexpr (dtype == DType::kF32) return std::bit_cast<uint32_t>(value);
    const uint32_t bits = dtype == DType::kBF16 ? ptx::f32_to_bf16(value) : ptx::f32_to_f16(value);
    return bits << (16 * which);
  }
};

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_ELEMENT_CUH_
