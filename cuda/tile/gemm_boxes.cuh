// Products of bf16 and f16 on sm_90a: 128 x 256 or 128 x 128 blocks of the tile in turn (narrow
// ones where there would else be fewer blocks than multiprocessors). Two parties share the work
// and meet at barriers only, so that each is ahead of the next, across tasks too:
//
//   load warp    boxes of A and B by the copy engine into the stages of a pipeline, k in slices of
//                64
//   work warps   two warpgroups, 64 rows each: products; then sums to peers, from peers, or rounded
//                to C, while the load warp brings what the next block needs
//
// `pair`: two blocks of a cluster do the task together, each every other 128 rows of it. Both need
// the same columns of B, so each loads half of them, for both: a third less for the caches to
// deliver. A stage is loaded again only once the work warps of both blocks have left it.
//
// Partial sums go straight from registers to memory and back, in the order in which the registers
// have them: the same kernel writes and reads them.
#ifndef SK_CUDA_TILE_GEMM_BOXES_CUH_
#define SK_CUDA_TILE_GEMM_BOXES_CUH_

#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/gemm.cuh"
#include "cuda/tile/gemm_store.cuh"
#include "cuda/tile/pipeline.cuh"

namespace sk::cuda {

inline constexpr uint32_t kBlockRows = kBoxRowsA;
inline constexpr uint32_t kBoxWarps = 8;
inline constexpr uint32_t kGroupRows = 64;  // Of a block, those of one warpgroup.
inline constexpr uint32_t kBoxBytesA = kBlockRows * kBoxDepth * 2;

// For blocks of `cols` columns. A stage has A, and behind it B, of either one box with k along its
// rows, or, where they lie so (MatrixLayout), boxes of 64 rows of k for kStripCols rows of A or
// columns of B each.
inline constexpr uint32_t kStripCols = 64;  // 128 bytes of a row.
inline constexpr uint32_t kStripBytes = kBoxDepth * kStripCols * 2;
template <uint32_t cols, bool pair>
struct GemmBoxShared {
  static constexpr uint32_t kBoxBytesB = cols * kBoxDepth * 2;
  static constexpr uint32_t kStageBytes = kBoxBytesA + kBoxBytesB;
  static constexpr uint32_t kStages = (192 << 10) / kStageBytes;  // 4, or 6.

  Pipeline<kStageBytes, kStages, pair ? kPairBlocks : 1> pipeline;
};

// By one thread, before anything else.
template <uint32_t cols, bool pair>
SK_DEVICE void init(GemmBoxShared<cols, pair>& shared) {
  shared.pipeline.init(kBoxWarps);
}

// Blocks of a task in the order in which all parties take them. Of a pair each side has as many:
// the last one of the second may begin beyond the task's rows.
template <uint32_t cols, bool pair, typename Fn>
SK_DEVICE void each_block(const GemmTask& task, const Fn& fn) {
  const uint32_t first = pair ? ptx::place_in_cluster() * kBlockRows : 0;
  for (uint32_t row0 = 0; row0 < task.rows; row0 += kBlockRows * (pair ? kPairBlocks : 1))
    for (uint32_t col0 = 0; col0 < task.cols; col0 += cols) fn(first + row0, col0);
}
SK_DEVICE uint32_t slices_of(const GemmTask& task) { return (task.k + kBoxDepth - 1) / kBoxDepth; }

// A box of B, into the stages of all blocks that share it.
template <bool pair>
SK_DEVICE void load_box_of_b(std::byte* to, const TensorMap& b, uint32_t x, uint32_t y,
                             ptx::MBarrier& arrivals) {
  if constexpr (pair) {
    ptx::load_box_there(to, b, x, y, arrivals, (1 << kPairBlocks) - 1);
  } else {
    ptx::load_box(to, b, x, y, arrivals);
  }
}

// The columns of B that a block of `cols` needs, from `col` on; of a pair those that this block
// loads.
template <MatrixLayout layout, uint32_t cols, bool pair>
SK_DEVICE void load_b(const TensorMap& b, GemmBoxShared<cols, pair>& shared, uint32_t slice,
                      uint32_t k, uint32_t col) {
  constexpr uint32_t kCols = cols / (pair ? kPairBlocks : 1), kColBytes = kBoxDepth * 2;
  const uint32_t first = pair ? ptx::place_in_cluster() * kCols : 0;
  std::byte* const to = shared.pipeline.at(slice) + kBoxBytesA + first * kColBytes;
  ptx::MBarrier& arrivals = shared.pipeline.arrivals(slice);
  if constexpr (layout == MatrixLayout::kColumns) {
    load_box_of_b<pair>(to, b, k, col + first, arrivals);
  } else {
#pragma unroll
    for (uint32_t at = 0; at < kCols; at += kStripCols)
      load_box_of_b<pair>(to + at * kColBytes, b, col + first + at, k, arrivals);
  }
}

// The rows of A from `row` on.
template <MatrixLayout layout>
SK_DEVICE void load_a(const TensorMap& a, std::byte* to, uint32_t k, uint32_t row,
                      ptx::MBarrier& arrivals) {
  if constexpr (layout != MatrixLayout::kTurned) {
    ptx::load_box(to, a, k, row, arrivals);
  } else {
#pragma unroll
    for (uint32_t at = 0; at < kBlockRows; at += kStripCols)
      ptx::load_box(to + at * (kBoxDepth * 2), a, row + at, k, arrivals);
  }
}

// The load warp's part; `slice` counts stages of all tasks.
template <MatrixLayout layout, uint32_t cols, bool pair>
SK_DEVICE void load_boxes(const GemmTask& task, const TensorMap* views,
                          GemmBoxShared<cols, pair>& shared, uint32_t& slice) {
  const ProductViews place = task.record.views;
  const TensorMap &a = views[place.a], &b = views[place.b];
  ptx::fence_async_proxy();  // What another block has packed and this warp has acquired.
  each_block<cols, pair>(task, [&](uint32_t row0, uint32_t col0) {
    for (uint32_t s = 0; s < slices_of(task); ++s, ++slice) {
      shared.pipeline.begin_fill(slice);
      if (ptx::one_lane()) {
        shared.pipeline.expect(slice, shared.kStageBytes);
        load_a<layout>(a, shared.pipeline.at(slice), s * kBoxDepth, place.a_row + row0,
                       shared.pipeline.arrivals(slice));
        load_b<layout>(b, shared, slice, s * kBoxDepth, place.b_row + col0);
      }
      ptx::sync_warp();
    }
  });
}

// A work warp's part.
template <bool bf16, uint32_t block_cols, bool pair, MatrixLayout layout = MatrixLayout::kColumns>
class GemmBoxes {
  using Shared = GemmBoxShared<block_cols, pair>;
  using Sums = ptx::ProductSums<block_cols>;

 public:
  SK_DEVICE GemmBoxes(const Team& team, const GemmTask& task, Shared& shared, uint32_t& slice)
      : task_(task), shared_(shared), slice_(slice), warp_(team.warp()) {}

  SK_DEVICE void run() {
    each_block<block_cols, pair>(task_, [&](uint32_t row0, uint32_t col0) {
      Sums sums[ptx::kLanesHere];
      multiply(sums);
      if (!has_rows(row0)) return;
      store(sums, row0, col0);
    });
  }

 private:
  static constexpr bool kTurnedA = layout == MatrixLayout::kTurned;
  static constexpr bool kTurnedB = layout != MatrixLayout::kColumns;

  // From the k-th element of each row of A, or column of B, on.
  template <bool turned>
  SK_DEVICE static uint64_t operand(const std::byte* at, uint32_t k) {
    if constexpr (turned) {
      return ptx::turned_operand(at + k * (kStripCols * 2), kStripBytes);
    } else {
      return ptx::operand(at + k * 2);
    }
  }

  static constexpr uint32_t kColGroups = block_cols / 8;  // Columns come in groups of 8.
  static constexpr uint32_t kAddedGroups = 4;             // Whose loads are under way at once.

  // One slice's products stay under way while the next slice is waited for. There is a first slice:
  // sums that begin here either with it or with zeros would be kept twice, which takes registers
  // that are not there (measured with nvcc 13.0), so products with k = 0 get no maps.
  SK_DEVICE void multiply(Sums (&sums)[ptx::kLanesHere]) {
    const uint32_t slices = slices_of(task_);
    for (uint32_t s = 0; s < slices; ++s, ++slice_) {
      shared_.pipeline.wait_full(slice_);
      const std::byte* stage = shared_.pipeline.at(slice_);
      const std::byte* a = stage + warp_ / 4 * (kGroupRows * kBoxDepth * 2);
      const std::byte* b = stage + kBoxBytesA;
      ptx::begin_products();
#pragma unroll
      for (uint32_t k = 0; k < kBoxDepth / 16; ++k)
        ptx::multiply_async<bf16, kTurnedA, kTurnedB>(
            sums, operand<kTurnedA>(a, k * 16), operand<kTurnedB>(b, k * 16), s != 0 || k != 0);
      ptx::commit_products();
      ptx::wait_products<1>();
      if (s > 0) shared_.pipeline.release(slice_ - 1);
    }
    ptx::wait_products<0>();
    ptx::pin(sums);
    shared_.pipeline.release(slice_ - 1);
  }

  // Groups of 64 rows by groups of 8 columns, 16 bytes for each thread of a warpgroup.
  SK_DEVICE uint64_t partial_place(uint32_t row0, uint32_t col0, uint32_t lane) const {
    const uint32_t row_group = row0 / kGroupRows + warp_ / 4;
    const uint64_t group = uint64_t(row_group) * ((task_.cols + 7) / 8) + col0 / 8;
    return (group * 128 + warp_ % 4 * ptx::kLanes + lane) * 16;
  }
  static constexpr uint64_t kNextColGroup = 128 * 16;  // Bytes.

  SK_DEVICE uint32_t col_groups(uint32_t col0) const { return (task_.cols - col0 + 7) / 8; }
  // Whether this warpgroup has rows at all.
  SK_DEVICE bool has_rows(uint32_t row0) const {
    return row0 + warp_ / 4 * kGroupRows < task_.rows;
  }

  SK_DEVICE void store_partial(const SumsOfLane& sums, uint64_t place, uint32_t groups) {
#pragma unroll
    for (uint32_t i = 0; i < kStoredGroups; ++i) {
      if (i >= groups) continue;
      ptx::Bytes16 four;
#pragma unroll
      for (uint32_t v = 0; v < 4; ++v)
        four.word[v] = std::bit_cast<uint32_t>(sums.value[4 * i + v]);
      ptx::store16(task_.partial() + place + i * kNextColGroup, four);
    }
  }

  // The sums with those of all ranks, in rank order, this rank's own product in its place. The
  // loads of all groups are under way at once. From -0 on, for it and any value are that value.
  SK_DEVICE void add_partials(float (&sums)[kAddedGroups * 4], uint64_t place, uint32_t groups) {
    float total[kAddedGroups * 4];
#pragma unroll
    for (float& each : total) each = -0.0f;
    for (uint32_t rank = 0; rank < task_.record.partials; ++rank) {
      ptx::Bytes16 loaded[kAddedGroups] = {};
      if (rank != task_.self) load_partials(loaded, task_.partial(rank) + place, groups);
#pragma unroll
      for (uint32_t v = 0; v < kAddedGroups * 4; ++v)
        total[v] += rank == task_.self ? sums[v] : std::bit_cast<float>(loaded[v / 4].word[v % 4]);
    }
#pragma unroll
    for (uint32_t v = 0; v < kAddedGroups * 4; ++v) sums[v] = total[v];
  }
  // Of groups that the tile has.
  SK_DEVICE static void load_partials(ptx::Bytes16 (&loaded)[kAddedGroups], const std::byte* from,
                                      uint32_t groups) {
#pragma unroll
    for (uint32_t j = 0; j < kAddedGroups; ++j)
      if (j < groups) loaded[j] = ptx::load16(from + j * kNextColGroup);
  }

  // The block, rounded, to C and its copies: four groups of columns at a time.
  SK_DEVICE void store(const Sums (&sums)[ptx::kLanesHere], uint32_t row0, uint32_t col0) {
    // A rank's own sums alone are what they are.
    const bool adds = task_.epilogue == kGemmReduce && task_.record.partials > 1;
    const bool partial = task_.epilogue == kGemmPartial;
    const uint32_t groups = col_groups(col0);
    const WarpRows to(task_, row0 + warp_ * 16, col0);
#pragma unroll
    for (uint32_t j = 0; j < kColGroups; j += kAddedGroups) {
      if (j >= groups) continue;
      SumsOfLane some[ptx::kLanesHere];
#pragma unroll
      for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
#pragma unroll
        for (uint32_t v = 0; v < kAddedGroups * 4; ++v) some[l].value[v] = sums[l].value[4 * j + v];
        const uint64_t place = partial_place(row0, col0, ptx::lane(l)) + j * kNextColGroup;
        if (adds) add_partials(some[l].value, place, groups - j);
        if (partial) store_partial(some[l], place, groups - j);
      }
      if (!partial) store_groups<bf16 ? DType::kBF16 : DType::kF16>(to, some, 8 * j);
    }
  }

  const GemmTask& task_;
  Shared& shared_;
  uint32_t& slice_;
  const uint32_t warp_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_GEMM_BOXES_CUH_
