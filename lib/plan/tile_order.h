// The order in which the tiles of a product are begun, so that tiles under way at one time share
// rows of A and columns of B in a cache that cannot hold all of either.
//
// Bands of `band_rows` rows of tiles; in a band column by column, from top to bottom. W workers
// then have about h = band_rows rows of tiles and W / h columns under way, and for each step of k
// the cache is asked for h tile_m elements of A and W / h tile_n of B: least where both are the
// same, at h = sqrt(W tile_n / tile_m). Level 0, as task.h: kernels include it.
#ifndef SK_LIB_PLAN_TILE_ORDER_H_
#define SK_LIB_PLAN_TILE_ORDER_H_

#include <cstdint>

namespace sk {

struct TilePlace {
  uint32_t row, col;  // In tiles.
};

struct TileOrder {
  uint32_t rows, cols;  // Of the product, in tiles.
  uint32_t band_rows;   // At least 1; the last band may have fewer.

  constexpr TilePlace place(uint32_t index) const {
    const uint32_t band = band_rows < rows ? band_rows : rows;
    const uint32_t above = index / (band * cols) * band;  // Rows of earlier bands.
    const uint32_t inside = index - above * cols;
    const uint32_t here = rows - above < band ? rows - above : band;
    return {above + inside % here, inside / here};
  }
};

}  // namespace sk

#endif  // SK_LIB_PLAN_TILE_ORDER_H_
