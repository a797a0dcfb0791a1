// kCopy and kPut: rows of bytes from one place to one or several.
#ifndef SK_CUDA_TILE_COPY_CUH_
#define SK_CUDA_TILE_COPY_CUH_

#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"

namespace sk::cuda {

template <typename Unit, typename Load, typename Store>
SK_DEVICE void copy_units(const Team& team, const CopyRecord& copy, std::byte* const* addresses,
                          uint64_t first_byte, uint64_t units, const Load& load,
                          const Store& store) {
  team.each(units * copy.rows, [&](uint64_t i) {
    const uint64_t row = copy.rows == 1 ? 0 : i / units;
    const uint64_t at = first_byte + (i - row * units) * sizeof(Unit);
    const Unit unit = load(addresses[0] + row * copy.from_pitch + at);
    for (uint32_t j = 1; j <= copy.to_count; ++j)
      store(addresses[j] + row * copy.to_pitch + at, unit);
  });
}

// 16 bytes at a time where all addresses allow it, the rest of each row byte by byte.
SK_DEVICE void copy_tile(const Team& team, const CopyRecord& copy, std::byte* const* addresses) {
  const uint64_t bits = address_bits(addresses, 1, copy.from_pitch, copy.rows) |
                        address_bits(addresses + 1, copy.to_count, copy.to_pitch, copy.rows);
  uint64_t done = 0;
  if (is_aligned(bits, 16)) {
    done = copy.row_bytes / 16 * 16;
    copy_units<ptx::Bytes16>(team, copy, addresses, 0, copy.row_bytes / 16, ptx::load16,
                             ptx::store16);
  } else if (is_aligned(bits, 4)) {
    done = copy.row_bytes / 4 * 4;
    copy_units<uint32_t>(
        team, copy, addresses, 0, copy.row_bytes / 4,
        [](const std::byte* at) { return *reinterpret_cast<const uint32_t*>(at); },
        [](std::byte* at, uint32_t word) { *reinterpret_cast<uint32_t*>(at) = word; });
  }
  copy_units<std::byte>(
      team, copy, addresses, done, copy.row_bytes - done, [](const std::byte* at) { return *at; },
      [](std::byte* at, std::byte byte) { *at = byte; });
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_COPY_CUH_
