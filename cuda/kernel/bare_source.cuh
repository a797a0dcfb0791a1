// Tasks without a plan: C = A B, where each block, or pair of blocks, takes every so many-th tile.
// What a plan costs is measured against this.
#ifndef SK_CUDA_KERNEL_BARE_SOURCE_CUH_
#define SK_CUDA_KERNEL_BARE_SOURCE_CUH_

#include "cuda/kernel/interpreter.cuh"
#include "lib/plan/tile_order.h"

namespace sk::cuda {

// Makes tasks up on the spot.
template <bool pair>
SK_DEVICE void fetch_tiles(const BareGemm& gemm, Ring& ring) {
  constexpr uint32_t kBlocks = pair ? kPairBlocks : 1;  // That do a tile together.
  constexpr uint32_t kRows = kBoxRowsA * kBlocks;
  const uint32_t tile_rows = (gemm.m + kRows - 1) / kRows;
  const uint32_t tile_cols = (gemm.n + kBoxRowsB - 1) / kBoxRowsB;
  const TileOrder order{tile_rows, tile_cols, gemm.band_rows};
  const uint32_t element = uint32_t(dtype_bytes(DType(gemm.dtype)));
  const uint32_t out_element = uint32_t(dtype_bytes(DType(gemm.out_dtype)));
  uint32_t n = 0;
  for (uint32_t index = ptx::block() / kBlocks;; index += ptx::blocks() / kBlocks, ++n) {
    FetchedTask& slot = ring.slots[slot_of(n)];
    wait_at(At::kRingEmpty, ring.empty[slot_of(n)], phase_of(n) ^ 1, slot_of(n));
    begin_task(n);
    slot.stop = index >= tile_rows * tile_cols;
    if (ptx::one_lane() && !slot.stop) {
      const TilePlace place = order.place(index);
      const uint32_t row0 = place.row * kRows, col0 = place.col * kBoxRowsB;
      slot.task = {};
      slot.task.op = TaskOp::kGemm;
      GemmRecord& record = slot.record.gemm;
      record = {};
      record.a_pitch = gemm.a_pitch;
      record.b_pitch = packed_pitch(gemm.k, gemm.n, element, gemm.packed_bytes);
      record.b_offset = col0 * record.b_pitch;
      record.c_pitch = gemm.c_pitch;
      record.rows = ptx::least(kRows, gemm.m - row0);
      record.cols = ptx::least(kBoxRowsB, gemm.n - col0);
      record.k = gemm.k;
      record.views = {0, 1, row0, col0};
      record.copies = 1;
      record.dtype = uint8_t(gemm.dtype);
      record.out_dtype = uint8_t(gemm.out_dtype);
      slot.addresses[0] = const_cast<std::byte*>(gemm.a) + row0 * gemm.a_pitch;
      slot.addresses[1] = const_cast<std::byte*>(gemm.b);
      slot.addresses[2] = gemm.c + row0 * gemm.c_pitch + uint64_t(col0) * out_element;
    }
    ptx::sync_warp();
    if (ptx::one_lane()) ptx::arrive(ring.full[slot_of(n)]);
    if (index >= tile_rows * tile_cols) return;
  }
}

template <bool pair>
class BareSource {
 public:
  SK_DEVICE explicit BareSource(const BareGemm& gemm) : gemm_(gemm) {}

  SK_DEVICE void fetch(Ring& ring) const { fetch_tiles<pair>(gemm_, ring); }
  SK_DEVICE void look() const {}
  SK_DEVICE bool traced() const { return false; }
  struct Ahead {};
  SK_DEVICE Ahead ask(const FetchedTask&) const { return {}; }
  SK_DEVICE void finish(Ring&, uint32_t, const FetchedTask&, bool, const Ahead&) const {}
  SK_DEVICE void end() const {}

 private:
  const BareGemm& gemm_;
};

template <typename Ops>
SK_DEVICE void run_bare(const BareGemm& gemm) {
  run_block<Ops>(BareSource<Ops::kPair>(gemm), gemm.views);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_KERNEL_BARE_SOURCE_CUH_
