// The warps that do a block's tasks together, and what all tiles ask of addresses.
#ifndef SK_CUDA_TILE_TEAM_CUH_
#define SK_CUDA_TILE_TEAM_CUH_

#include "cuda/kernel/task_record.h"
#include "cuda/ptx/thread.cuh"
#include "cuda/watch/waits.cuh"

namespace sk::cuda {

// Places of one thread, row and unit in it, whose loads can be under way at once. `there`: inside.
template <uint32_t many>
struct Batch {
  uint32_t row[many], unit[many];
  bool there[many];
};

// Consecutive whole warps of a block; those of `sides` blocks share what can be shared out.
struct Team {
  uint32_t first_warp, warps;
  uint32_t barrier;  // Number of the hardware barrier that is theirs, within this block.
  uint32_t side = 0, sides = 1;

  SK_DEVICE uint32_t threads() const { return warps * ptx::kLanes; }
  SK_DEVICE uint32_t warp() const { return ptx::warp() - first_warp; }
  SK_DEVICE void sync() const { meet_team(barrier, threads()); }

  // fn(i) once for each i < count, thread after thread, in all sides together.
  template <typename Fn>
  SK_DEVICE void each(uint64_t count, const Fn& fn) const {
    const uint32_t first = side * threads() + warp() * ptx::kLanes, step = sides * threads();
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l)
      for (uint64_t i = first + ptx::lane(l); i < count; i += step) fn(i);
  }

  // Whether walking row by row leaves few threads without work.
  template <uint32_t many>
  SK_DEVICE bool fills_rows(uint32_t rows, uint32_t units) const {
    return rows == 1 || units >= many * sides * threads();
  }

  // fn(batch) until every place of `rows` rows of `units` has been in one batch of one thread, row
  // by row; neighbouring threads have neighbouring units. At most kUnitsMax units.
  template <uint32_t many, typename Fn>
  SK_DEVICE void each_in_rows(uint32_t rows, uint32_t units, const Fn& fn) const {
    const uint32_t step = sides * threads();
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t first = side * threads() + warp() * ptx::kLanes + ptx::lane(l);
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t i = first; i < units; i += many * step) {
          Batch<many> batch;
#pragma unroll
          for (uint32_t u = 0; u < many; ++u) {
            batch.row[u] = row;
            batch.unit[u] = i + u * step;
            batch.there[u] = u * step < units - i;
          }
          fn(batch);
        }
      }
    }
  }

  // The same across the ends of rows: for rows that have fewer units than there are threads. Only
  // the first place takes a division.
  template <uint32_t many, typename Fn>
  SK_DEVICE void each_across_rows(uint32_t rows, uint32_t units, const Fn& fn) const {
    if (units == 0) return;
    const uint32_t step = sides * threads(), rows_on = step / units, units_on = step % units;
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t first = side * threads() + warp() * ptx::kLanes + ptx::lane(l);
      uint32_t row = first / units, unit = first % units;
      while (row < rows) {
        Batch<many> batch;
#pragma unroll
        for (uint32_t u = 0; u < many; ++u) {
          batch.row[u] = row;
          batch.unit[u] = unit;
          batch.there[u] = row < rows;
          const bool wraps = unit >= units - units_on;
          row += rows_on + wraps;
          unit += wraps ? units_on - units : units_on;
        }
        fn(batch);
      }
    }
  }
};

// Units of a row that is walked at once, so that 32 bits hold every count: longer ones are cut.
inline constexpr uint32_t kUnitsMax = 1 << 30;

// Of several addresses and their distance from row to row, the low bits, or-ed: which widths they
// allow.
SK_DEVICE uint64_t address_bits(std::byte* const* addresses, uint32_t count, uint64_t pitch,
                                uint32_t rows) {
  uint64_t bits = rows > 1 ? pitch : 0;
  for (uint32_t i = 0; i < count; ++i) bits |= reinterpret_cast<uint64_t>(addresses[i]);
  return bits;
}
SK_DEVICE bool is_aligned(uint64_t bits, uint32_t bytes) { return bits % bytes == 0; }

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_TEAM_CUH_
