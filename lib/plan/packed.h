// How packed B lies where its columns are one behind the other: on GPUs, and in the reference.
#ifndef SK_LIB_PLAN_PACKED_H_
#define SK_LIB_PLAN_PACKED_H_

#include <cstdint>

namespace sk {

// Columns of k elements each lie this many bytes apart: whole units of 16 bytes where `bytes`,
// which hold `columns` of them, have room for that. The same for all columns and for some of them.
constexpr uint64_t packed_pitch(uint64_t k, uint64_t columns, uint64_t element_bytes,
                                uint64_t bytes) {
  const uint64_t whole = (k * element_bytes + 15) / 16 * 16;
  return columns * whole <= bytes ? whole : k * element_bytes;
}

}  // namespace sk

#endif  // SK_LIB_PLAN_PACKED_H_
