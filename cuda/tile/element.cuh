// Elements of every type, as the sums they go into: float for floats of up to 32 bits, double for
// double, 64-bit integers for integers, which wrap around.
#ifndef SK_CUDA_TILE_ELEMENT_CUH_
#define SK_CUDA_TILE_ELEMENT_CUH_

#include <bit>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/memory.cuh"
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
template <>
inline constexpr bool kIsInteger<int32_t> = true;

// include/sk/op.h: minimum and maximum of a NaN and anything is a NaN. Without a branch, so that
// code for many elements is not written once for each operation.
template <typename Sum>
SK_DEVICE Sum join(RedOp op, Sum a, Sum b) {
  Sum total, product, picked = op == RedOp::kMin ? (b < a ? b : a) : (a < b ? b : a);
  if constexpr (kIsInteger<Sum>) {
    total = Sum(uint64_t(a) + uint64_t(b));
    product = Sum(uint64_t(a) * uint64_t(b));
  } else {
    total = a + b;
    product = a * b;
    picked = b != b ? b : picked;
    picked = a != a ? a : picked;
  }
  picked = op == RedOp::kProd ? product : picked;
  return op == RedOp::kSum || op == RedOp::kAvg ? total : picked;
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

// Elements of one type in 16 bytes, as the sums they go into. (32 bits hold sums of 32-bit
// integers: what does not fit wraps around.)
template <DType dtype>
struct Unit {
  using Sum = float;
  static constexpr uint32_t kPerWord = Packed<dtype>::kPerWord, kCount = 4 * kPerWord;

  SK_DEVICE static Sum get(const ptx::Bytes16& bytes, uint32_t which) {
    return Packed<dtype>::get(bytes.word[which / kPerWord], which % kPerWord);
  }
  // Into bytes that are 0 there.
  SK_DEVICE static void put(ptx::Bytes16& bytes, uint32_t which, Sum value) {
    bytes.word[which / kPerWord] |= Packed<dtype>::put(value, which % kPerWord);
  }
};
template <>
struct Unit<DType::kI32> {
  using Sum = int32_t;
  static constexpr uint32_t kCount = 4;

  SK_DEVICE static Sum get(const ptx::Bytes16& bytes, uint32_t which) {
    return Sum(bytes.word[which]);
  }
  SK_DEVICE static void put(ptx::Bytes16& bytes, uint32_t which, Sum value) {
    bytes.word[which] = uint32_t(value);
  }
};
template <typename Wide>
struct WideUnit {
  using Sum = Wide;
  static constexpr uint32_t kCount = 2;

  SK_DEVICE static Sum get(const ptx::Bytes16& bytes, uint32_t which) {
    return std::bit_cast<Sum>(bytes.word[2 * which] | uint64_t(bytes.word[2 * which + 1]) << 32);
  }
  SK_DEVICE static void put(ptx::Bytes16& bytes, uint32_t which, Sum value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    bytes.word[2 * which] = uint32_t(bits);
    bytes.word[2 * which + 1] = uint32_t(bits >> 32);
  }
};
template <>
struct Unit<DType::kF64> : WideUnit<double> {};
template <>
struct Unit<DType::kI64> : WideUnit<int64_t> {};

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_ELEMENT_CUH_
