// Elements of any type as doubles.
#ifndef SK_TESTS_MULTI_DERIVED_ELEMENTS_H_
#define SK_TESTS_MULTI_DERIVED_ELEMENTS_H_

#include <cstring>

#include "lib/op/dtype.h"

namespace sk::derived {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

inline double get(DType type, const std::byte* at) {
  switch (type) {
    case DType::kF32:
      return double(load<float>(at));
    case DType::kF64:
      return load<double>(at);
    case DType::kBF16:
      return double(bf16_to_f32(load<uint16_t>(at)));
    case DType::kF16:
      return double(f16_to_f32(load<uint16_t>(at)));
    case DType::kI32:
      return double(load<int32_t>(at));
    case DType::kI64:
      return double(load<int64_t>(at));
  }
  return 0;
}

inline void set(DType type, std::byte* at, double value) {
  switch (type) {
    case DType::kF32:
      return store(at, float(value));
    case DType::kF64:
      return store(at, value);
    case DType::kBF16:
      return store(at, f32_to_bf16(float(value)));
    case DType::kF16:
      return store(at, f32_to_f16(float(value)));
    case DType::kI32:
      return store(at, int32_t(value));
    case DType::kI64:
      return store(at, int64_t(value));
  }
}

// Between 1 and its neighbour; of integers nothing is rounded.
inline double step_of(DType type) {
  switch (type) {
    case DType::kF32:
      return 0x1p-23;
    case DType::kF64:
      return 0x1p-52;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    case DType::kI32:
    case DType::kI64:
      break;
  }
  return 0;
}

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_ELEMENTS_H_
