// kCopy and kPut: rows of bytes from one place to one or several.
#ifndef SK_CUDA_TILE_COPY_CUH_
#define SK_CUDA_TILE_COPY_CUH_

#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"

namespace sk::cuda {

SK_DEVICE bool is_aligned(uint64_t bits, uint32_t bytes) { return bits % bytes == 0; }

// The low bits of all addresses and row distances of `region`, or-ed: what widths may be used.
SK_DEVICE uint64_t alignment_bits(const TileArgs& args, uint32_t region) {
  uint64_t bits = args.regions[region].rows > 1 ? args.regions[region].pitch : 0;
  for (uint32_t j = 0; j < args.regions[region].buffer_count; ++j)
    bits |= reinterpret_cast<uint64_t>(args.pointer(region, j));
  return bits;
}

template <typename Unit, typename Load, typename Store>
SK_DEVICE void copy_units(const Team& team, const TileArgs& args, uint64_t first_byte,
                          uint64_t units, const Load& load, const Store& store) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  team.each(units * src.rows, [&](uint64_t i) {
    const uint64_t row = src.rows == 1 ? 0 : i / units;
    const uint64_t at = first_byte + (i - row * units) * sizeof(Unit);
    const Unit unit = load(args.pointer(0) + row * src.pitch + at);
    for (uint32_t j = 0; j < dst.buffer_count; ++j)
      store(args.pointer(1, j) + row * dst.pitch + at, unit);
  });
}

// 16 bytes at a time where all addresses allow it, the rest of each row byte by byte.
SK_DEVICE void copy_tile(const Team& team, const TileArgs& args) {
  const uint64_t row_bytes = args.regions[0].row_bytes;
  const uint64_t bits = alignment_bits(args, 0) | alignment_bits(args, 1);
  uint64_t done = 0;
  if (is_aligned(bits, 16)) {
    done = row_bytes / 16 * 16;
    copy_units<ptx::Bytes16>(team, args, 0, row_bytes / 16, ptx::load16, ptx::store16);
  } else if (is_aligned(bits, 4)) {
    done = row_bytes / 4 * 4;
    copy_units<uint32_t>(
        team, args, 0, row_bytes / 4,
        [](const std::byte* at) { return *reinterpret_cast<const uint32_t*>(at); },
        [](std::byte* at, uint32_t word) { *reinterpret_cast<uint32_t*>(at) = word; });
  }
  copy_units<std::byte>(
      team, args, done, row_bytes - done, [](const std::byte* at) { return *at; },
      [](std::byte* at, std::byte byte) { *at = byte; });
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_COPY_CUH_
