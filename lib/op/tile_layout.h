// How tile kernels lay out what only they read: the one place that planner, validator and kernels
// ask how many bytes that takes.
#ifndef SK_LIB_OP_TILE_LAYOUT_H_
#define SK_LIB_OP_TILE_LAYOUT_H_

#include <cstdint>

namespace sk {

// A partial tile takes whole blocks of so many rows and columns of sums, whatever of them it fills:
// kernels of CPUs write columns in panels, those of GPUs rows in groups. Its first byte, like that
// of packed weights, lies on a line: stores past the caches ask for it.
inline constexpr uint64_t kPartialTileRows = 64, kPartialTileColumns = 32;
inline constexpr uint64_t kTileLayoutAlign = 64;

constexpr uint64_t partial_tile_bytes(uint64_t rows, uint64_t cols, uint64_t sum_bytes) {
  const uint64_t whole_rows = (rows + kPartialTileRows - 1) / kPartialTileRows * kPartialTileRows;
  const uint64_t whole_cols =
      (cols + kPartialTileColumns - 1) / kPartialTileColumns * kPartialTileColumns;
  return whole_rows * whole_cols * sum_bytes;
}

}  // namespace sk

#endif  // SK_LIB_OP_TILE_LAYOUT_H_
