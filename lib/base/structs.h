// Structs that cross the C ABI: a caller may have been compiled with fewer fields, or with more.
//
// struct_size says which the caller has. As structs only grow, every size that a release had is a
// multiple of the alignment, and no field lies across such a boundary; other sizes would cut one in
// two, and half a pointer is a wild one.
#ifndef SK_LIB_BASE_STRUCTS_H_
#define SK_LIB_BASE_STRUCTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/status.h"

namespace sk {

inline constexpr uint32_t kStructBytesMax = 4096;

// `name` is the struct's own, as sentences of these functions begin with it.
template <typename Struct>
Status check_struct_size(const char* name, uint32_t size) {
  static_assert(offsetof(Struct, struct_size) == 0);
  if (size >= alignof(Struct) && size <= kStructBytesMax && size % alignof(Struct) == 0) [[likely]]
    return {};
  return error(
      SK_ERR_INVALID_ARGUMENT,
      "{}: struct_size is {}, it must be sizeof({}) where the caller was compiled (here it "
      "is {})",
      name, size, name, sizeof(Struct));
}

// The caller's struct as ours: fields that an older caller lacks are zero, which means default;
// fields that this library lacks must be.
template <typename Struct>
Result<Struct> read_struct(const char* name, const Struct* from) {
  Struct out{};
  if (from == nullptr) return out;
  const uint32_t size = from->struct_size;
  SK_RETURN_IF_ERROR(check_struct_size<Struct>(name, size));
  std::memcpy(&out, from, std::min<size_t>(sizeof out, size));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (uint32_t i = sizeof out; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return error(SK_ERR_UNSUPPORTED,
                 "{}: a field at byte {} is set that this version of libsk does not know", name, i);
  }
  return out;
}

// Whether the library can fill the caller's struct: to be asked before anything is done for it.
template <typename Struct>
Status check_struct(const char* name, const char* argument, const Struct* out) {
  if (out == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "{} is null", argument);
  return check_struct_size<Struct>(name, out->struct_size);
}

// Writes as much of `value` as a checked struct has room for; its struct_size stays.
template <typename Struct>
void fill_struct(Struct value, Struct* out) {
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof value));
}

}  // namespace sk

#endif  // SK_LIB_BASE_STRUCTS_H_
