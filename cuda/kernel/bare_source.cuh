// Tasks without a plan: C = A B, where each block takes every blocks()-th tile. What a plan costs
// is measured against this.
#ifndef SK_CUDA_KERNEL_BARE_SOURCE_CUH_
#define SK_CUDA_KERNEL_BARE_SOURCE_CUH_

#include "cuda/kernel/interpreter.cuh"

namespace sk::cuda {

// Tile `index` in the order in which tiles are begun: bands of kBandRows tile rows, column by
// column in a band, so that blocks at work at one time share rows of A and columns of B in the
// cache.
struct TilePlace {
  uint32_t row, col;
};
inline constexpr uint32_t kBandRows = 8;
SK_DEVICE TilePlace tile_place(uint32_t index, uint32_t tile_rows, uint32_t tile_cols) {
  const uint32_t band = index / (kBandRows * tile_cols);
  const uint32_t rows = ptx::least(kBandRows, tile_rows - band * kBandRows);
  const uint32_t inside = index - band * kBandRows * tile_cols;
  return {band * kBandRows + inside % rows, inside / rows};
}

// Makes tasks up on the spot.
SK_DEVICE void fetch_tiles(const BareGemm& gemm, Ring& ring) {
  const uint32_t tile_rows = (gemm.m + kBoxRowsA - 1) / kBoxRowsA;
  const uint32_t tile_cols = (gemm.n + kBoxRowsB - 1) / kBoxRowsB;
  const uint32_t element = uint32_t(dtype_bytes(DType(gemm.dtype)));
  const uint32_t out_element = uint32_t(dtype_bytes(DType(gemm.out_dtype)));
  uint32_t n = 0;
  for (uint32_t index = ptx::block();; index += ptx::blocks(), ++n) {
    FetchedTask& slot = ring.slots[slot_of(n)];
    ptx::wait(ring.empty[slot_of(n)], phase_of(n) ^ 1);
    slot.stop = index >= tile_rows * tile_cols;
    if (ptx::one_lane() && !slot.stop) {
      const TilePlace place = tile_place(index, tile_rows, tile_cols);
      const uint32_t row0 = place.row * kBoxRowsA, col0 = place.col * kBoxRowsB;
      const uint32_t rows = ptx::least(kBoxRowsA, gemm.m - row0);
      const uint32_t cols = ptx::least(kBoxRowsB, gemm.n - col0);
      slot.task = {};
      slot.task.op = TaskOp::kGemm;
      slot.task.region_count = 3;
      slot.regions[0] = {0, uint64_t(gemm.k) * element, gemm.a_pitch, rows, 0, 1, kRead};
      slot.regions[1] = {0, gemm.packed_bytes, gemm.packed_bytes, 1, 1, 1, kRead};
      slot.regions[2] = {0, uint64_t(cols) * out_element, gemm.c_pitch, rows, 2, 1, kWrite};
      const int64_t params[kGemmParamCount] = {
          gemm.dtype, gemm.out_dtype, 0,    gemm.m,     gemm.n, gemm.k, row0,
          rows,       col0,           cols, kGemmStore, 0,      0};
      for (uint32_t i = 0; i < kGemmParamCount; ++i) slot.params[i] = params[i];
      slot.pointers[0] = const_cast<std::byte*>(gemm.a) + row0 * gemm.a_pitch;
      slot.pointers[1] = const_cast<std::byte*>(gemm.b);
      slot.pointers[2] = gemm.c + row0 * gemm.c_pitch + uint64_t(col0) * out_element;
      for (uint32_t i = 0; i <= 3; ++i) slot.first_pointer[i] = uint16_t(i);
    }
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(ring.full[slot_of(n)]);
    if (index >= tile_rows * tile_cols) return;
  }
}

class BareSource {
 public:
  SK_DEVICE explicit BareSource(const BareGemm& gemm) : gemm_(gemm) {}

  SK_DEVICE void fetch(Ring& ring) const { fetch_tiles(gemm_, ring); }
  SK_DEVICE bool traced() const { return false; }
  SK_DEVICE void finish(const FetchedTask&, bool) const {}
  SK_DEVICE void end() const {}

 private:
  const BareGemm& gemm_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_BARE_SOURCE_CUH_
