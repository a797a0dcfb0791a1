// Bands of tiles for the workers of one rank.
#include "cuda/exec/cut.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sk::cuda {
namespace {

uint32_t bands(uint32_t workers, uint32_t tile_m, uint32_t tile_n) {
  Target target;
  target.workers = workers;
  target.tile_m = tile_m;
  target.tile_n = tile_n;
  return band_rows_of(target);
}

TEST(Bands, HaveAsMuchOfAAsOfBInThem) {
  EXPECT_EQ(bands(1, 128, 128), 1u);
  EXPECT_EQ(bands(2, 128, 256), 2u);
  EXPECT_EQ(bands(7, 128, 256), 2u);
  EXPECT_EQ(bands(8, 128, 256), 4u);    // A GPU of 132 blocks, of 16 ranks,
  EXPECT_EQ(bands(16, 128, 256), 4u);   // of 8,
  EXPECT_EQ(bands(33, 128, 256), 8u);   // of 4,
  EXPECT_EQ(bands(132, 128, 256), 8u);  // and of one,
  EXPECT_EQ(bands(132, 128, 128), 8u);  // by narrow tiles,
  EXPECT_EQ(bands(66, 256, 256), 8u);   // and by pairs.
}

// What a band asks memory for, in elements per step of k: no other power of two asks for less,
// up to the most rows that are held.
TEST(Bands, AskForLittleMoreThanTheBest) {
  for (uint32_t workers = 1; workers <= 132; ++workers) {
    const auto asks = [&](double rows) { return rows * 128 + workers / rows * 256; };
    double best = asks(1);
    for (const uint32_t rows : {2u, 4u, 8u}) best = std::min(best, asks(rows));
    EXPECT_LE(asks(bands(workers, 128, 256)), 1.25 * best) << workers;
  }
}

}  // namespace
}  // namespace sk::cuda
