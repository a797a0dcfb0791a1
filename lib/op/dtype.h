// Element types and their conversions: the only place that knows how bf16 and f16 are rounded.
#ifndef SK_LIB_OP_DTYPE_H_
#define SK_LIB_OP_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sk/op.h"

namespace sk {

enum class DType : uint8_t {
  kF32 = SK_F32,
  kF64 = SK_F64,
  kBF16 = SK_BF16,
  kF16 = SK_F16,
  kI32 = SK_I32,
  kI64 = SK_I64,
};

enum class RedOp : uint8_t {
  kSum = SK_SUM,
  kProd = SK_PROD,
  kMin = SK_MIN,
  kMax = SK_MAX,
  kAvg = SK_AVG,
};

constexpr bool is_dtype(int32_t value) { return value >= SK_F32 && value <= SK_I64; }
constexpr bool is_redop(int32_t value) { return value >= SK_SUM && value <= SK_AVG; }
constexpr bool is_float(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kBF16:
    case DType::kF16:
      return true;
    case DType::kI32:
    case DType::kI64:
      break;
  }
  return false;
}

// Sums of bf16 and f16 are kept in f32, all else in itself.
constexpr DType accumulator(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kBF16:
    case DType::kF16:
      return 2;
  }
  return 0;
}

constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "?";
}

constexpr const char* redop_name(RedOp op) {
  switch (op) {
    case RedOp::kSum:
      return "sum";
    case RedOp::kProd:
      return "prod";
    case RedOp::kMin:
      return "min";
    case RedOp::kMax:
      return "max";
    case RedOp::kAvg:
      return "avg";
  }
  return "?";
}

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

// Round to nearest even; a NaN stays one (its quiet bit is set, the payload's top bits kept).
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // Round to nearest even, overflow to infinity, NaN kept.

}  // namespace sk

#endif  // SK_LIB_OP_DTYPE_H_
