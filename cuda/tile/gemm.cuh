// Products: what every matrix kernel shares: where a task's operands lie, and what becomes of a
// sum.
#ifndef SK_CUDA_TILE_GEMM_CUH_
#define SK_CUDA_TILE_GEMM_CUH_

#include "cuda/tile/element.cuh"
#include "cuda/tile/pack.cuh"

namespace sk::cuda {

// A [rows, k] (or [k, rows] where transposed) times columns of B, all strides in bytes.
struct GemmTask {
  const GemmRecord& record;
  std::byte* const* addresses;
  DType dtype, out_dtype;
  GemmEpilogue epilogue;
  bool transpose_a;
  uint32_t rows, cols, k, self;
  const std::byte* a;
  uint64_t a_pitch;
  const std::byte* b;  // Of the tile's first column.
  uint64_t b_pitch;
  bool b_rows;  // LayoutB::kRows.

  SK_DEVICE GemmTask(const GemmRecord& from, std::byte* const* at)
      : record(from),
        addresses(at),
        dtype(DType(from.dtype)),
        out_dtype(DType(from.out_dtype)),
        epilogue(GemmEpilogue(from.epilogue)),
        transpose_a(from.transpose_a != 0),
        rows(from.rows),
        cols(from.cols),
        k(from.k),
        self(from.self),
        a(at[0]),
        a_pitch(from.a_pitch),
        b(at[1] + from.b_offset),
        b_pitch(from.b_pitch),
        b_rows(from.layout_b == LayoutB::kRows) {}

  // The tile's own partial sums, or those of `rank`.
  SK_DEVICE std::byte* partial(uint32_t rank = 0) const { return addresses[2 + rank]; }
  // C, wherever there is a copy of it.
  SK_DEVICE std::byte* const* c() const { return addresses + 2 + record.partials; }

  // The product at (row, col) of the tile: stored as it is for the owner of the tile, or added to
  // the others' in rank order, rounded once and stored.
  SK_DEVICE void emit(uint32_t row, uint32_t col, float product) const {
    const uint64_t place = (uint64_t(row) * cols + col) * sizeof(float);
    if (epilogue == kGemmPartial) {
      *reinterpret_cast<float*>(partial() + place) = product;
      return;
    }
    float sum = product;
    for (uint32_t j = 0; j < record.partials; ++j) {
      const float value = j == self ? product : *reinterpret_cast<const float*>(partial(j) + place);
      sum = j == 0 ? value : sum + value;
    }
    const uint64_t at = row * record.c_pitch + col * dtype_bytes(out_dtype);
    for (uint32_t j = 0; j < record.copies; ++j) store_element(out_dtype, c()[j] + at, sum);
  }
};

// Sums of a block on their way from the threads that made them to those that store them, so that
// neighbours store neighbours. The pitch puts rows that a warp writes at once into other banks.
template <uint32_t kBlock>
struct StagedSums {
  static constexpr uint32_t kPitch = kBlock + 8;
  float value[kBlock][kPitch];
};

// The block at (row0, col0) of the tile, as far as it is inside. Behind a barrier of the team; the
// staged sums may be overwritten behind the next.
template <uint32_t kBlock>
SK_DEVICE void emit_block(const Team& team, const GemmTask& task, const StagedSums<kBlock>& sums,
                          uint32_t row0, uint32_t col0) {
  team.each(kBlock * kBlock, [&](uint64_t i) {
    const uint32_t row = uint32_t(i) / kBlock, col = uint32_t(i) % kBlock;
    if (row0 + row < task.rows && col0 + col < task.cols)
      task.emit(row0 + row, col0 + col, sums.value[row][col]);
  });
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_GEMM_CUH_
