// The order of a product's tiles: each one once, whatever the bands.
#include "lib/plan/tile_order.h"

#include <gtest/gtest.h>

#include <set>

#include "lib/algo/planner.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

TEST(TileOrder, HasEachTileOnce) {
  for (uint32_t rows = 1; rows <= 9; ++rows) {
    for (uint32_t cols = 1; cols <= 5; ++cols) {
      for (const uint32_t band_rows : {1u, 2u, 3u, 8u, 100u, UINT32_MAX}) {
        const TileOrder order{rows, cols, band_rows};
        std::set<std::pair<uint32_t, uint32_t>> seen;
        for (uint32_t index = 0; index < rows * cols; ++index) {
          const TilePlace place = order.place(index);
          ASSERT_LT(place.row, rows);
          ASSERT_LT(place.col, cols);
          seen.insert({place.row, place.col});
        }
        ASSERT_EQ(seen.size(), rows * cols) << rows << " x " << cols << ", bands of " << band_rows;
      }
    }
  }
}

TEST(TileOrder, GoesDownTheColumnsOfABand) {
  const TileOrder order{5, 2, 3};  // A band of three rows, then one of two.
  const std::pair<uint32_t, uint32_t> wanted[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1},
                                                  {2, 1}, {3, 0}, {4, 0}, {3, 1}, {4, 1}};
  for (uint32_t index = 0; index < 10; ++index) {
    const TilePlace place = order.place(index);
    EXPECT_EQ(std::pair(place.row, place.col), wanted[index]) << index;
  }
}

// Rows and columns of the tiles that a plan's queues begin first, in units of tiles.
std::vector<std::pair<int64_t, int64_t>> first_tiles(const Target& target) {
  TextOp op;
  op.kind = OpKind::kAllreduceGemm;
  op.dtype = op.out_dtype = DType::kBF16;
  op.m = 20 * 128;
  op.n = op.ldc = 4 * 256;
  op.k = op.lda = 64;
  Result<Plan> plan = make_plan(testing_support::op_desc(op), target);
  EXPECT_TRUE(plan.ok());
  std::vector<std::pair<int64_t, int64_t>> tiles;
  const RankPlan& part = plan->ranks[0];
  for (const Queue& queue : part.queues) {
    for (uint32_t i = queue.first_task; i < queue.first_task + queue.task_count; ++i) {
      if (part.tasks[i].op != TaskOp::kGemm) continue;
      const int64_t* params = &part.params[part.tasks[i].first_param];
      tiles.emplace_back(params[kGemmRow0] / 128, params[kGemmCol0] / 256);
      break;
    }
  }
  return tiles;
}

TEST(TileOrder, IsTheTargetsOrOneThatItsWorkersAskFor) {
  Target target{.workers = 40, .tile_m = 128, .tile_n = 256, .packed_bytes = 64 * 4 * 256 * 2};
  const auto all = [&](uint32_t band_rows) {
    const TileOrder order{20, 4, band_rows};
    std::vector<std::pair<int64_t, int64_t>> tiles;
    for (uint32_t index = 0; index < target.workers; ++index)
      tiles.emplace_back(order.place(index).row, order.place(index).col);
    return tiles;
  };
  EXPECT_EQ(first_tiles(target), all(8));
  target.band_rows = 5;
  EXPECT_EQ(first_tiles(target), all(5));
  target = {.workers = 3, .tile_m = 128, .tile_n = 256, .packed_bytes = target.packed_bytes};
  EXPECT_EQ(first_tiles(target), all(1));
}

}  // namespace
}  // namespace sk
