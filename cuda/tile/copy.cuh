// kCopy and kPut: rows of bytes from one place to one or several.
#ifndef SK_CUDA_TILE_COPY_CUH_
#define SK_CUDA_TILE_COPY_CUH_

#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"

namespace sk::cuda {

// Loads in flight, of one thread.
template <bool lean>
inline constexpr uint32_t kCopyUnits = lean ? 4 : 8;

// `units` of each row, from `first_byte` on.
template <bool lean, typename Unit, typename Load, typename Store>
SK_DEVICE void copy_units(const Team& team, const CopyRecord& copy, std::byte* const* addresses,
                          uint64_t first_byte, uint32_t units, const Load& load,
                          const Store& store) {
  constexpr uint32_t kMany = kCopyUnits<lean>;
  const auto move = [&](const Batch<kMany>& batch) {
    Unit unit[kMany];
    const std::byte* const from = addresses[0] + first_byte;
#pragma unroll
    for (uint32_t u = 0; u < kMany; ++u)
      unit[u] = load(batch.there[u], from + batch.row[u] * copy.from_pitch +
                                         uint64_t(batch.unit[u]) * sizeof(Unit));
    for (uint32_t j = 1; j <= copy.to_count; ++j) {
      std::byte* const to = addresses[j] + first_byte;
#pragma unroll
      for (uint32_t u = 0; u < kMany; ++u)
        store(batch.there[u],
              to + batch.row[u] * copy.to_pitch + uint64_t(batch.unit[u]) * sizeof(Unit), unit[u]);
    }
  };
  if (!lean && team.fills_rows<kMany>(copy.rows, units)) {
    team.each_in_rows<kMany>(copy.rows, units, move);
  } else {
    team.each_across_rows<kMany>(copy.rows, units, move);
  }
}

// Whole units from `done` on; returns the bytes of each row that are done then.
template <bool lean, typename Unit, typename Load, typename Store>
SK_DEVICE uint64_t copy_rows(const Team& team, const CopyRecord& copy, std::byte* const* addresses,
                             uint64_t done, const Load& load, const Store& store) {
  while (copy.row_bytes - done >= sizeof(Unit)) {
    const uint64_t left = (copy.row_bytes - done) / sizeof(Unit);
    const uint32_t units = left < kUnitsMax ? uint32_t(left) : kUnitsMax;
    copy_units<lean, Unit>(team, copy, addresses, done, units, load, store);
    done += uint64_t(units) * sizeof(Unit);
  }
  return done;
}

// Plain words: those that no vector fits.
template <bool lean, typename Word>
SK_DEVICE uint64_t copy_words(const Team& team, const CopyRecord& copy, std::byte* const* addresses,
                              uint64_t done) {
  return copy_rows<lean, Word>(
      team, copy, addresses, done,
      [](bool there, const std::byte* at) {
        return there ? *reinterpret_cast<const Word*>(at) : Word();
      },
      [](bool there, std::byte* at, Word word) {
        if (there) *reinterpret_cast<Word*>(at) = word;
      });
}

// 16 bytes at a time where all addresses allow it, the rest of each row byte by byte. `lean`: in
// less code, with more counting, for kernels that have their registers for something else.
template <bool lean>
SK_DEVICE void copy_tile(const Team& team, const CopyRecord& copy, std::byte* const* addresses) {
  const uint64_t bits = address_bits(addresses, 1, copy.from_pitch, copy.rows) |
                        address_bits(addresses + 1, copy.to_count, copy.to_pitch, copy.rows);
  const bool past = copy.past_caches != 0;
  // Onto itself: a broadcast's root, whose output is its input.
  if (copy.to_count == 1 && addresses[0] == addresses[1] &&
      (copy.rows == 1 || copy.from_pitch == copy.to_pitch))
    return;
  uint64_t done = 0;
  if (is_aligned(bits, 16)) {
    done = copy_rows<lean, ptx::Bytes16>(team, copy, addresses, 0, ptx::load16_once,
                                         [&](bool there, std::byte* at, const ptx::Bytes16& bytes) {
                                           ptx::store16_past(there && past, at, bytes);
                                           ptx::store16_where(there && !past, at, bytes);
                                         });
  } else if (is_aligned(bits, 4)) {
    done = copy_words<lean, uint32_t>(team, copy, addresses, 0);
  }
  copy_words<lean, uint8_t>(team, copy, addresses, done);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_COPY_CUH_
