// kGemm: what every matrix kernel shares: where a task's operands lie, and what becomes of a sum.
#ifndef SK_CUDA_TILE_GEMM_CUH_
#define SK_CUDA_TILE_GEMM_CUH_

#include "cuda/tile/element.cuh"
#include "cuda/tile/pack.cuh"

namespace sk::cuda {

// A [rows, k] (or [k, rows] where transposed) times packed columns of B, all strides in bytes.
struct GemmTask {
  const TileArgs& args;
  DType dtype, out_dtype;
  GemmEpilogue epilogue;
  bool transpose_a;
  uint32_t rows, cols, k, self;
  const std::byte* a;
  uint64_t a_pitch;
  const std::byte* b;  // Of the tile's first column.
  uint64_t b_pitch;

  SK_DEVICE explicit GemmTask(const TileArgs& tile)
      : args(tile),
        dtype(DType(tile.params[kGemmDtype])),
        out_dtype(DType(tile.params[kGemmOutDtype])),
        epilogue(GemmEpilogue(tile.params[kGemmEpilogue])),
        transpose_a(tile.params[kGemmTransposeA] != 0),
        rows(uint32_t(tile.params[kGemmRows])),
        cols(uint32_t(tile.params[kGemmCols])),
        k(uint32_t(tile.params[kGemmK])),
        self(uint32_t(tile.params[kGemmSelf])),
        a(tile.pointer(0)),
        a_pitch(tile.regions[0].pitch),
        b_pitch(packed_pitch(k, uint64_t(tile.params[kGemmN]), dtype_bytes(dtype),
                             tile.regions[1].row_bytes)) {
    b = tile.pointer(1) + uint64_t(tile.params[kGemmCol0]) * b_pitch;
  }

  // The product at (row, col) of the tile: stored as it is for the owner of the tile, or added to
  // the others' in rank order, rounded once and stored.
  SK_DEVICE void emit(uint32_t row, uint32_t col, float product) const {
    const uint64_t place = (uint64_t(row) * cols + col) * sizeof(float);
    if (epilogue == kGemmPartial) {
      *reinterpret_cast<float*>(args.pointer(2) + place) = product;
      return;
    }
    float sum = product;
    if (epilogue == kGemmReduce) {
      for (uint32_t j = 0; j < args.regions[2].buffer_count; ++j) {
        const float value =
            j == self ? product : *reinterpret_cast<const float*>(args.pointer(2, j) + place);
        sum = j == 0 ? value : sum + value;
      }
    }
    const uint32_t last = args.region_count - 1;
    const Region& c = args.regions[last];
    for (uint32_t j = 0; j < c.buffer_count; ++j)
      store_element(out_dtype, args.pointer(last, j) + row * c.pitch + col * dtype_bytes(out_dtype),
                    sum);
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
