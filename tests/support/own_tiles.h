// Tiles that tests register: descriptions put together piece by piece, and calls of them.
#ifndef SK_TESTS_SUPPORT_OWN_TILES_H_
#define SK_TESTS_SUPPORT_OWN_TILES_H_

#include <cstring>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "sk.h"

namespace sk::testing_support {

class OwnTile {
 public:
  explicit OwnTile(const char* name, sk_tile_fn function) {
    desc.struct_size = sizeof desc;
    desc.version = 1;
    desc.name = name;
    desc.over = SK_TILE_OVER_ROWS;
    desc.function = function;
  }
  OwnTile& reads(const char* region, const char* types, const char* shape) {
    return add({sizeof(sk_tile_region), SK_TILE_READ, region, types, shape, nullptr, nullptr});
  }
  OwnTile& writes(const char* region, const char* types, const char* shape,
                  const char* in_place = nullptr) {
    return add({sizeof(sk_tile_region), SK_TILE_WRITE, region, types, shape, in_place, nullptr});
  }
  OwnTile& takes(const char* parameter, int32_t kind, const char* least = nullptr,
                 const char* most = nullptr) {
    parameters.push_back({sizeof(sk_tile_parameter), kind, parameter, least, most, nullptr});
    return *this;
  }
  OwnTile& does(const char* effect) {
    desc.effect = effect;
    return *this;
  }
  OwnTile& over(int32_t how) {
    desc.over = how;
    return *this;
  }
  OwnTile& add(const sk_tile_region& region) {
    regions.push_back(region);
    return *this;
  }
  const sk_tile_desc* get() {
    region_list.clear();
    parameter_list.clear();
    for (const sk_tile_region& each : regions) region_list.push_back(&each);
    for (const sk_tile_parameter& each : parameters) parameter_list.push_back(&each);
    desc.regions = region_list.data();
    desc.region_count = uint32_t(region_list.size());
    desc.parameters = parameter_list.data();
    desc.parameter_count = uint32_t(parameter_list.size());
    return &desc;
  }

  sk_tile_desc desc{};
  std::deque<sk_tile_region> regions;
  std::deque<sk_tile_parameter> parameters;
  std::vector<const sk_tile_region*> region_list;
  std::vector<const sk_tile_parameter*> parameter_list;
};

inline sk_tensor matrix(int32_t dtype, void* data, int64_t rows, int64_t columns, int64_t stride) {
  sk_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.dtype = dtype;
  tensor.data = data;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.strides[0] = stride;
  tensor.strides[1] = 1;
  return tensor;
}
inline sk_tensor vector(int32_t dtype, void* data, int64_t count) {
  sk_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.dtype = dtype;
  tensor.data = data;
  tensor.ndim = 1;
  tensor.shape[0] = count;
  tensor.strides[0] = 1;
  return tensor;
}

// The struct of arguments of an operation that a user made.
class OwnArgs {
 public:
  explicit OwnArgs(const std::vector<sk_tensor>& tensors,
                   const std::vector<std::variant<int64_t, double>>& values = {})
      : tensors_(tensors.begin(), tensors.end()) {
    put(uint32_t{0});
    put(int32_t{0});
    for (const sk_tensor& each : tensors_) put(static_cast<const void*>(&each));
    for (const auto& value : values) std::visit([&](auto is) { put(is); }, value);
    const auto size = uint32_t(bytes_.size() * sizeof(uint64_t));
    std::memcpy(bytes_.data(), &size, sizeof size);
  }
  OwnArgs(const OwnArgs&) = delete;
  OwnArgs& operator=(const OwnArgs&) = delete;
  const void* get() const { return bytes_.data(); }

 private:
  template <typename T>
  void put(T value) {
    if (at_ + sizeof(T) > bytes_.size() * sizeof(uint64_t)) bytes_.push_back(0);
    std::memcpy(reinterpret_cast<std::byte*>(bytes_.data()) + at_, static_cast<const void*>(&value),
                sizeof(T));
    at_ += sizeof(T);
  }

  const std::deque<sk_tensor> tensors_;
  std::vector<uint64_t> bytes_;
  size_t at_ = 0;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_OWN_TILES_H_
