// kPackB: B as the matrix kernels read it; see packed_pitch().
#ifndef SK_CUDA_TILE_PACK_CUH_
#define SK_CUDA_TILE_PACK_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"
#include "lib/op/dtype.h"

namespace sk::cuda {

// The columns [first, last) of `b`.
template <typename Unit>
SK_DEVICE void pack_elements(const Team& team, const BareWeights& b, uint64_t first,
                             uint64_t last) {
  const uint64_t k = b.k, columns = last - first;
  const uint64_t pitch = packed_pitch(k, b.n, sizeof(Unit), b.packed_bytes);
  team.each(columns * k, [&](uint64_t i) {
    // Neighbouring threads read neighbouring elements.
    const uint64_t column = first + (b.transposed ? i / k : i % columns);
    const uint64_t row = b.transposed ? i % k : i / columns;
    const std::byte* element = b.transposed ? b.from + column * b.from_pitch + row * sizeof(Unit)
                                            : b.from + row * b.from_pitch + column * sizeof(Unit);
    *reinterpret_cast<Unit*>(b.to + column * pitch + row * sizeof(Unit)) =
        *reinterpret_cast<const Unit*>(element);
  });
}

SK_DEVICE void pack_columns(const Team& team, const BareWeights& b, uint64_t first, uint64_t last) {
  const uint64_t bytes = dtype_bytes(DType(b.dtype));
  if (bytes == 2) return pack_elements<uint16_t>(team, b, first, last);
  if (bytes == 4) return pack_elements<uint32_t>(team, b, first, last);
  pack_elements<uint64_t>(team, b, first, last);
}

SK_DEVICE void pack_tile(const Team& team, const TileArgs& args) {
  const BareWeights b{args.pointer(0),
                      args.pointer(1),
                      args.regions[0].pitch,
                      args.regions[1].row_bytes,
                      uint64_t(args.params[kPackK]),
                      uint64_t(args.params[kPackN]),
                      uint32_t(args.params[kPackDtype]),
                      uint32_t(args.params[kPackTransposeB])};
  pack_columns(team, b, uint64_t(args.params[kPackCol0]), uint64_t(args.params[kPackCol1]));
}

// Without a plan: every block its share of the columns.
SK_DEVICE void pack_weights(const BareWeights& b) {
  const Team team{0, kPackThreads / ptx::kLanes, 1};
  pack_columns(team, b, b.n * ptx::block() / ptx::blocks(),
               b.n * (ptx::block() + 1) / ptx::blocks());
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_PACK_CUH_
