// Elements as the reference sees them: loaded, widened, rounded, one at a time.
#ifndef SK_LIB_TILE_ELEMENT_H_
#define SK_LIB_TILE_ELEMENT_H_

#include <cstddef>
#include <cstring>

#include "lib/op/dtype.h"

namespace sk::tiles {

template <typename T>
T load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename Sum>
Sum load(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Sum(load_as<float>(at));
    case DType::kF64:
      return Sum(load_as<double>(at));
    case DType::kBF16:
      return Sum(bf16_to_f32(load_as<uint16_t>(at)));
    case DType::kF16:
      return Sum(f16_to_f32(load_as<uint16_t>(at)));
    case DType::kI32:
      return Sum(load_as<int32_t>(at));
    case DType::kI64:
      return Sum(load_as<int64_t>(at));
  }
  return Sum();
}

template <typename Sum>
void store(DType dtype, std::byte* at, Sum value) {
  switch (dtype) {
    case DType::kF32:
      return store_as(at, float(value));
    case DType::kF64:
      return store_as(at, double(value));
    case DType::kBF16:
      return store_as(at, f32_to_bf16(float(value)));
    case DType::kF16:
      return store_as(at, f32_to_f16(float(value)));
    case DType::kI32:
      return store_as(at, int32_t(value));
    case DType::kI64:
      return store_as(at, int64_t(value));
  }
}

}  // namespace sk::tiles

#endif  // SK_LIB_TILE_ELEMENT_H_
