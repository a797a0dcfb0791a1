#include "cuda/exec/cut.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cuda/exec/kernels.h"
#include "lib/base/flag.h"

namespace sk::cuda {
namespace {

constexpr uint64_t kUnit = 16;  // Bytes: what the copy engine reads whole.
constexpr uint32_t kPairRows = kBoxRowsA * kPairBlocks;
// So many rows of blocks leave at most a sixteenth of all pairs with a block that has none.
constexpr uint64_t kRowsForPairs = 16;

uint64_t tiles_along(int64_t size, uint32_t tile) { return (uint64_t(size) + tile - 1) / tile; }

bool is_readable(const Product& op, int64_t stride) {
  return uint64_t(stride) * dtype_bytes(op.dtype) % kUnit == 0;
}

// How many blocks of a kernel for such operands can be resident.
uint32_t blocks_of(const Device& device, DType dtype, MatrixLayout layout, Way way) {
  const TileNeeds needs{.ops = 1u << uint32_t(TaskOp::kGemm),
                        .types = 1u << uint32_t(dtype),
                        .layouts = 1u << uint32_t(layout)};
  const std::optional<KernelId> id = find_kernel(needs, way);
  return id ? device.kernel(*id).blocks_max : 0;
}

// Where kernels of boxes could, products read B as it lies, whether or not these can have A.
bool reads_raw_b(const Device& device, const Product& op) {
  return op.ldb != 0 && op.k != 0 && is_readable(op, op.ldb) &&
         blocks_of(device, op.dtype, MatrixLayout::kRows, Way::kBoxes) != 0;
}

// That can be resident in pairs and multiply what the copy engine reads; 0: it cannot.
uint32_t pair_blocks_of(const Device& device, const Product& op) {
  if (!is_readable(op, op.lda) || op.k == 0) return 0;
  const bool by_rows = reads_raw_b(device, op) && !op.transpose_b;
  if (op.transpose_a && !by_rows) return 0;
  const MatrixLayout layout = op.transpose_a ? MatrixLayout::kTurned
                              : by_rows      ? MatrixLayout::kRows
                                             : MatrixLayout::kColumns;
  return blocks_of(device, op.dtype, layout, Way::kPairs);
}

}  // namespace

Result<bool> pairs_wanted() {
  const char* text = std::getenv("SK_GPU_PAIRS");
  return parse_flag("SK_GPU_PAIRS", text != nullptr ? text : "1");
}

// A turn is a batch of a block, all of whose loads are under way at once: blocks that go through
// memory side by side find the same pages open, where shares that lie far apart (the worst: by a
// power of two) crowd on some channels. Less than a quarter of a batch does not pay for a block.
void cut_moves(Target& target) {
  constexpr uint64_t kBatchBytes = 32 << 10;  // Of 256 threads, 8 loads of 16 bytes each.
  target.turn_bytes = kBatchBytes;
  target.queue_bytes_min = kBatchBytes / 4;
}

// Pairs of blocks where they fill the GPU: all blocks find another, as many wide tiles as pairs are
// there, and of a pair hardly ever one has no rows. Else single ones, in narrow tiles where there
// would else be fewer tiles than workers.
void cut_product(const Device& device, const Product& op, bool pairs, Target& target) {
  const uint64_t rows = tiles_along(op.m, kBoxRowsA), wide = rows * tiles_along(op.n, kBoxRowsB);
  const uint64_t pitch = packed_pitch_of(op.dtype, op.k);
  GemmTiles{.tile_m = kBoxRowsA,
            .tile_n = wide < op.parts ? kNarrowBoxRowsB : kBoxRowsB,
            .packed_bytes = uint64_t(op.n) * pitch,
            .packed_pitch = pitch,
            .raw_b = reads_raw_b(device, op)}
      .apply(target);
  const bool whole = target.workers % kPairBlocks == 0 && target.mapped;
  const bool has_rows = rows % kPairBlocks == 0 || rows >= kRowsForPairs;
  const uint64_t pair_tiles =
      tiles_along(op.m, kPairRows) * tiles_along(op.n, kBoxRowsB) * kPairBlocks;
  const uint32_t blocks = target.world_size * target.workers;
  target.band_rows = band_rows_of(target);
  if (!pairs || blocks > pair_blocks_of(device, op)) return;
  if (!whole || !has_rows || pair_tiles < op.parts) return;
  target.tile_m = kPairRows;
  target.workers /= kPairBlocks;
  target.band_rows = band_rows_of(target);
}

uint32_t band_rows_of(const Target& target) {
  constexpr uint32_t kMost = 8;
  const uint64_t square = uint64_t(target.workers) * target.tile_n / target.tile_m;
  uint32_t rows = 1;
  while (rows < kMost && uint64_t(2 * rows) * (2 * rows) <= square) rows *= 2;
  return rows;
}

bool is_cut_for_pairs(const Plan& plan) {
  return plan.target.tile_m == kPairRows && needs_of(plan).multiplies();
}

uint64_t packed_pitch_of(DType dtype, int64_t k) {
  return align_up(uint64_t(k) * dtype_bytes(dtype), kUnit);
}

}  // namespace sk::cuda
