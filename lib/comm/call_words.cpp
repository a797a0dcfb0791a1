#include "lib/comm/call_words.h"

#include <cstring>

#include "sk/op.h"

namespace sk {
namespace {

uint64_t both(int32_t high, int32_t low) { return uint64_t(uint32_t(high)) << 32 | uint32_t(low); }

}  // namespace

bool CallWords::read_tensor(const void* from) {
  const auto* tensor = static_cast<const sk_tensor*>(from);
  if (tensor == nullptr) return push(0);
  if (tensor->struct_size != sizeof *tensor || tensor->ndim < 1 || tensor->ndim > 8) return false;
  bool fits = push(uint64_t(reinterpret_cast<uintptr_t>(tensor->data))) &&
              push(both(tensor->dtype, tensor->ndim)) &&
              push(both(tensor->device_type, tensor->device_id));
  for (int32_t axis = 0; fits && axis < tensor->ndim; ++axis) {
    fits = push(uint64_t(tensor->shape[axis])) && push(uint64_t(tensor->strides[axis]));
  }
  return fits && tensor->reserved == 0;
}

bool CallWords::read(const Schema& schema, const ArgLayout& layout, const void* args) {
  const auto* bytes = static_cast<const unsigned char*>(args);
  const auto word = [&]<typename T>(uint32_t offset, T value) {
    std::memcpy(static_cast<void*>(&value), bytes + offset, sizeof(T));
    return value;
  };
  if (args == nullptr || word(0, uint32_t()) != layout.size()) return false;
  const int32_t op = word(ArgLayout::kOpOffset, int32_t());
  if (op != 0 && op != int32_t(schema.id)) return false;
  if (!push(uint64_t(schema.id))) return false;
  for (const ArgField& field : layout.fields()) {
    switch (field.kind) {
      case ArgField::kTensor:
        if (!read_tensor(word(field.offset, static_cast<const void*>(nullptr)))) return false;
        break;
      case ArgField::kPacked: {
        const auto handle = word(field.offset, uint64_t());  // Which is never another one's.
        has_packed_ = has_packed_ || handle != 0;
        if (!push(handle)) return false;
        break;
      }
      case ArgField::kList:
      case ArgField::kLength:
        return false;
      case ArgField::kInt32:
        if (!push(word(field.offset, uint32_t()))) return false;
        break;
      case ArgField::kInt64:
      case ArgField::kDouble:
        if (!push(word(field.offset, uint64_t()))) return false;
        break;
    }
  }
  return true;
}

}  // namespace sk
