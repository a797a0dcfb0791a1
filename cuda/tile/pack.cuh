// kPackB: B as the matrix kernels read it; see packed_pitch().
//
// Each thread turns runs of 32 bytes of a packed column, a sector of the caches: of a B [k, n] it
// loads an element of each of the run's rows, which lie beside those of its neighbours, all of them
// under way at once, and stores the run in two pieces. Of a B [n, k] runs are copied as they are.
#ifndef SK_CUDA_TILE_PACK_CUH_
#define SK_CUDA_TILE_PACK_CUH_

#include "cuda/kernel/image.h"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/team.cuh"
#include "lib/op/dtype.h"

namespace sk::cuda {

// Some columns of B on their way.
struct PackedColumns {
  const std::byte* from;  // Of the first column.
  std::byte* to;
  uint64_t from_pitch, pitch;
  uint64_t k, count;
  bool transposed;  // B is [n, k].
};

inline constexpr uint32_t kPackRunBytes = 32;

// One element of each of a run's rows, as words.
template <typename Unit>
struct PackRun {
  static constexpr uint32_t kRows = kPackRunBytes / sizeof(Unit);
  Unit row[kRows];

  SK_DEVICE uint32_t word(uint32_t i) const {
    if constexpr (sizeof(Unit) == 2) return row[2 * i] | uint32_t(row[2 * i + 1]) << 16;
    if constexpr (sizeof(Unit) == 4) return row[i];
    if constexpr (sizeof(Unit) == 8) return uint32_t(row[i / 2] >> 32 * (i % 2));
  }
};

template <typename Unit>
SK_DEVICE void pack_run(const PackedColumns& b, uint64_t column, uint64_t row) {
  PackRun<Unit> run;
  const std::byte* from = b.from + row * b.from_pitch + column * sizeof(Unit);
#pragma unroll
  for (uint32_t i = 0; i < run.kRows; ++i)
    run.row[i] = *reinterpret_cast<const Unit*>(from + i * b.from_pitch);
  std::byte* to = b.to + column * b.pitch + row * sizeof(Unit);
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    ptx::Bytes16 four;
#pragma unroll
    for (uint32_t v = 0; v < 4; ++v) four.word[v] = run.word(4 * half + v);
    ptx::store16(to + half * 16, four);
  }
}

// The rows from `row0` on of every column, element by element.
template <typename Unit>
SK_DEVICE void pack_elements(const Team& team, const PackedColumns& b, uint64_t row0) {
  const uint64_t rows = b.k - row0;
  team.each(b.count * rows, [&](uint64_t i) {
    // Neighbouring threads read neighbouring elements.
    const uint64_t column = b.transposed ? i / rows : i % b.count;
    const uint64_t row = row0 + (b.transposed ? i % rows : i / b.count);
    const std::byte* element = b.transposed ? b.from + column * b.from_pitch + row * sizeof(Unit)
                                            : b.from + row * b.from_pitch + column * sizeof(Unit);
    *reinterpret_cast<Unit*>(b.to + column * b.pitch + row * sizeof(Unit)) =
        *reinterpret_cast<const Unit*>(element);
  });
}

template <typename Unit>
SK_DEVICE void pack_units(const Team& team, const PackedColumns& b) {
  constexpr uint64_t kRows = PackRun<Unit>::kRows;
  const uint64_t runs = b.k / kRows;
  const uint64_t to_bits = reinterpret_cast<uint64_t>(b.to) | b.pitch;
  const uint64_t from_bits = reinterpret_cast<uint64_t>(b.from) | b.from_pitch;
  if (to_bits % 16 != 0 || (b.transposed && from_bits % 16 != 0))
    return pack_elements<Unit>(team, b, 0);
  if (b.transposed) {
    team.each(b.count * runs * 2, [&](uint64_t i) {
      const uint64_t column = i / (runs * 2), at = i % (runs * 2) * 16;
      ptx::store16(b.to + column * b.pitch + at, ptx::load16(b.from + column * b.from_pitch + at));
    });
  } else {
    team.each(b.count * runs,
              [&](uint64_t i) { pack_run<Unit>(b, i % b.count, i / b.count * kRows); });
  }
  pack_elements<Unit>(team, b, runs * kRows);
}

SK_DEVICE void pack_columns(const Team& team, const PackedColumns& columns,
                            uint32_t element_bytes) {
  if (element_bytes == 2) return pack_units<uint16_t>(team, columns);
  if (element_bytes == 4) return pack_units<uint32_t>(team, columns);
  pack_units<uint64_t>(team, columns);
}

SK_DEVICE void pack_tile(const Team& team, const PackRecord& pack, std::byte* const* addresses) {
  pack_columns(team,
               {addresses[0] + pack.from_offset, addresses[1], pack.from_pitch, pack.pitch, pack.k,
                pack.columns, pack.transposed != 0},
               pack.element_bytes);
}

// Without a plan: every block its share of the columns, cut at whole lines of B's rows.
SK_DEVICE void pack_weights(const BareWeights& b) {
  const Team team{0, kPackThreads / ptx::kLanes, 1};
  const auto bytes = uint32_t(dtype_bytes(DType(b.dtype)));
  const uint64_t line = 64 / bytes, pitch = packed_pitch(b.k, b.n, bytes, b.packed_bytes);
  const uint64_t lines = (b.n + line - 1) / line;
  const uint64_t first = lines * ptx::block() / ptx::blocks() * line;
  const uint64_t behind = lines * (ptx::block() + 1) / ptx::blocks() * line;
  const uint64_t last = behind < b.n ? behind : b.n;
  if (first >= last) return;
  const uint64_t skipped = first * (b.transposed != 0 ? b.from_pitch : bytes);
  pack_columns(team,
               {b.from + skipped, b.to + first * pitch, b.from_pitch, pitch, b.k, last - first,
                b.transposed != 0},
               bytes);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_PACK_CUH_
