// How tile kernels lay out what only they read. A block of an array in such a layout is known as a
// whole: by its rectangle, and the byte in it.
#ifndef SK_LIB_EFFECT_LAYOUT_H_
#define SK_LIB_EFFECT_LAYOUT_H_

#include "lib/op/tile_layout.h"
#include "lib/plan/packed.h"

namespace sk::effect {

// Of elements.
struct Rect {
  uint64_t row0 = 0, rows = 0, col0 = 0, cols = 0;

  bool empty() const { return rows == 0 || cols == 0; }
  bool operator==(const Rect&) const = default;
};

struct Layout {
  const char* name;
  // The least of a block; UINT64_MAX is more than there can be.
  uint64_t (*bytes)(uint64_t rows, uint64_t cols, uint64_t element_bytes);
  // From column to column of a block in `bytes`, so that strips of columns side by side are one
  // block. Null: a block is written by one task.
  uint64_t (*pitch)(uint64_t rows, uint64_t cols, uint64_t element_bytes, uint64_t bytes) = nullptr;
};

namespace layouts {

inline uint64_t packed_bytes(uint64_t rows, uint64_t cols, uint64_t element_bytes) {
  uint64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(rows, cols, &bytes) ||
                        __builtin_mul_overflow(bytes, element_bytes, &bytes);
  return overflow ? UINT64_MAX : bytes;
}
inline uint64_t column_pitch(uint64_t rows, uint64_t cols, uint64_t element_bytes, uint64_t bytes) {
  return packed_pitch(rows, cols, element_bytes, bytes);
}

inline uint64_t partial_bytes(uint64_t rows, uint64_t cols, uint64_t element_bytes) {
  const uint64_t small = uint64_t(1) << 28;  // Of either: a product of both and a type's size fits.
  if (rows > small || cols > small) return UINT64_MAX;
  return partial_tile_bytes(rows, cols, element_bytes);
}

inline constexpr Layout kPackedB = {"packed B", packed_bytes, column_pitch};
inline constexpr Layout kPartialTile = {"partial tile", partial_bytes};

}  // namespace layouts
}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_LAYOUT_H_
