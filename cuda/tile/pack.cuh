// kPackB: B as the matrix kernels read it; see packed_pitch().
#ifndef SK_CUDA_TILE_PACK_CUH_
#define SK_CUDA_TILE_PACK_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"
#include "lib/op/dtype.h"

namespace sk::cuda {

template <typename Unit>
SK_DEVICE void pack_elements(const Team& team, const TileArgs& args, uint64_t pitch) {
  const uint64_t k = uint64_t(args.params[kPackK]);
  const uint64_t first = uint64_t(args.params[kPackCol0]);
  const uint64_t columns = uint64_t(args.params[kPackCol1]) - first;
  const bool transposed = args.params[kPackTransposeB] != 0;
  const uint64_t from_pitch = args.regions[0].pitch;
  const std::byte* from = args.pointer(0);
  std::byte* to = args.pointer(1);
  team.each(columns * k, [&](uint64_t i) {
    // Neighbouring threads read neighbouring elements.
    const uint64_t column = first + (transposed ? i / k : i % columns);
    const uint64_t row = transposed ? i % k : i / columns;
    const std::byte* element = transposed ? from + column * from_pitch + row * sizeof(Unit)
                                          : from + row * from_pitch + column * sizeof(Unit);
    *reinterpret_cast<Unit*>(to + column * pitch + row * sizeof(Unit)) =
        *reinterpret_cast<const Unit*>(element);
  });
}

SK_DEVICE void pack_tile(const Team& team, const TileArgs& args) {
  const uint64_t bytes = dtype_bytes(DType(args.params[kPackDtype]));
  const uint64_t pitch = packed_pitch(uint64_t(args.params[kPackK]), uint64_t(args.params[kPackN]),
                                      bytes, args.regions[1].row_bytes);
  if (bytes == 2) return pack_elements<uint16_t>(team, args, pitch);
  if (bytes == 4) return pack_elements<uint32_t>(team, args, pitch);
  pack_elements<uint64_t>(team, args, pitch);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_PACK_CUH_
