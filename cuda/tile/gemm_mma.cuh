// Products of bf16 and f16 with warp-wide matrix instructions, sm_80 and later: 128 x 128 blocks of
// the tile in turn, k in slices of 32 through kMmaStages stages of shared memory.
//
// Shared layout: units of 16 bytes (8 elements), placed so that the eight rows that one ldmatrix
// reads lie in different banks.
//   A, B      [128 rows][4 units]   unit u of row r at u ^ (r / 2 % 4)
//   turned    [32 k][16 units]      unit u of row k at u ^ (k % 8)
// Turned are an A [k, m] and a B [k, n].
#ifndef SK_CUDA_TILE_GEMM_MMA_CUH_
#define SK_CUDA_TILE_GEMM_MMA_CUH_

#include "cuda/ptx/mma.cuh"
#include "cuda/tile/gemm.cuh"

namespace sk::cuda {

inline constexpr uint32_t kMmaBlock = 128, kMmaDepth = 32, kMmaStages = 4;
inline constexpr uint32_t kMmaUnits = kMmaBlock * kMmaDepth / 8;  // Of one operand and stage.
inline constexpr uint32_t kMmaWarpRows = 64, kMmaWarpCols = 32;   // Of a warp's part of the block.
inline constexpr uint32_t kMmaWarps = 8;

union GemmMmaShared {
  struct {
    ptx::Bytes16 a[kMmaStages][kMmaUnits];
    ptx::Bytes16 b[kMmaStages][kMmaUnits];
  };
  StagedSums<kMmaBlock> sums;
};

SK_DEVICE uint32_t row_unit(uint32_t row, uint32_t unit) {
  return row * 4 + (unit ^ (row / 2 % 4));
}
SK_DEVICE uint32_t turned_unit(uint32_t k, uint32_t unit) { return k * 16 + (unit ^ (k % 8)); }

// Eight 16-bit elements, of which `count` exist; the others are zero.
SK_DEVICE void load_unit(std::byte* to, const std::byte* from, uint32_t count, bool aligned) {
  if (aligned) return ptx::copy16_async(to, from, count * 2);
  uint16_t element[8];
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
    element[i] = i < count ? reinterpret_cast<const uint16_t*>(from)[i] : uint16_t(0);
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) reinterpret_cast<uint16_t*>(to)[i] = element[i];
}

SK_DEVICE uint32_t elements_from(uint32_t at, uint32_t end) {
  return at >= end ? 0 : end - at < 8 ? end - at : 8;
}

class GemmMma {
 public:
  SK_DEVICE GemmMma(const Team& team, const GemmTask& task, GemmMmaShared& shared)
      : team_(team),
        task_(task),
        shared_(shared),
        a_aligned_(is_aligned16(task.a, task.a_pitch)),
        b_aligned_(is_aligned16(task.b, task.b_pitch)) {}

  template <bool bf16>
  SK_DEVICE void run() {
    for (uint32_t row0 = 0; row0 < task_.rows; row0 += kMmaBlock)
      for (uint32_t col0 = 0; col0 < task_.cols; col0 += kMmaBlock) block<bf16>(row0, col0);
  }

 private:
  SK_DEVICE static bool is_aligned16(const std::byte* data, uint64_t pitch) {
    return (reinterpret_cast<uint64_t>(data) | pitch) % 16 == 0;
  }

  SK_DEVICE void load(uint32_t stage, uint32_t row0, uint32_t col0, uint32_t k0) {
    team_.each(kMmaUnits, [&](uint64_t i) {
      const Operand a{task_.a, task_.a_pitch, row0, task_.rows, a_aligned_};
      const Operand b{task_.b, task_.b_pitch, col0, task_.cols, b_aligned_};
      load_operand(shared_.a[stage], a, task_.transpose_a, uint32_t(i), k0);
      load_operand(shared_.b[stage], b, task_.b_rows, uint32_t(i), k0);
    });
    ptx::commit_copies();
  }

  // Rows of A, or columns of B: those of a block from `first` on, of `end`.
  struct Operand {
    const std::byte* from;
    uint64_t pitch;
    uint32_t first, end;
    bool aligned;
  };

  // The i-th unit of a slice.
  SK_DEVICE void load_operand(ptx::Bytes16* to, const Operand& is, bool turned, uint32_t i,
                              uint32_t k0) {
    if (turned) {
      const uint32_t k = i / 16, unit = i % 16, place = is.first + unit * 8;
      const uint32_t count = k0 + k < task_.k ? elements_from(place, is.end) : 0;
      const uint64_t at = count == 0 ? 0 : (k0 + k) * is.pitch + uint64_t(place) * 2;
      load_unit(bytes(to[turned_unit(k, unit)]), is.from + at, count, is.aligned);
    } else {
      const uint32_t row = i / 4, unit = i % 4, place = is.first + row, k = k0 + unit * 8;
      const uint32_t count = place < is.end ? elements_from(k, task_.k) : 0;
      const uint64_t at = count == 0 ? 0 : place * is.pitch + uint64_t(k) * 2;
      load_unit(bytes(to[row_unit(row, unit)]), is.from + at, count, is.aligned);
    }
  }

  SK_DEVICE static std::byte* bytes(ptx::Bytes16& unit) {
    return reinterpret_cast<std::byte*>(&unit);
  }

  // Rows of the 16 x 16 piece of A at (m, k) that each lane names; see load_matrices().
  SK_DEVICE void load_a(ptx::FragmentA (&out)[ptx::kLanesHere], uint32_t stage, uint32_t m,
                        uint32_t k) {
    const std::byte* row[ptx::kLanesHere];
    uint32_t loaded[ptx::kLanesHere][4];
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t lane = ptx::lane(l);
      const uint32_t matrix = lane / 8, below = matrix % 2 * 8, right = matrix / 2 * 8;
      const uint32_t unit = task_.transpose_a ? turned_unit(k + right + lane % 8, (m + below) / 8)
                                              : row_unit(m + below + lane % 8, (k + right) / 8);
      row[l] = bytes(shared_.a[stage][unit]);
    }
    if (task_.transpose_a) {
      ptx::load_matrices<true>(loaded, row);
    } else {
      ptx::load_matrices<false>(loaded, row);
    }
#pragma unroll
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) out[l].pair[i] = loaded[l][i];
  }

  // Two 16 x 8 pieces of B, of columns n to n + 15.
  SK_DEVICE void load_b(ptx::FragmentB (&left)[ptx::kLanesHere],
                        ptx::FragmentB (&right)[ptx::kLanesHere], uint32_t stage, uint32_t n,
                        uint32_t k) {
    const std::byte* row[ptx::kLanesHere];
    uint32_t loaded[ptx::kLanesHere][4];
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t lane = ptx::lane(l);
      const uint32_t matrix = lane / 8, right = matrix / 2 * 8, below = matrix % 2 * 8;
      const uint32_t unit = task_.b_rows ? turned_unit(k + below + lane % 8, (n + right) / 8)
                                         : row_unit(n + right + lane % 8, (k + below) / 8);
      row[l] = bytes(shared_.b[stage][unit]);
    }
    if (task_.b_rows) {
      ptx::load_matrices<true>(loaded, row);
    } else {
      ptx::load_matrices<false>(loaded, row);
    }
#pragma unroll
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      left[l] = {{loaded[l][0], loaded[l][1]}};
      right[l] = {{loaded[l][2], loaded[l][3]}};
    }
  }

  static constexpr uint32_t kDown = kMmaWarpRows / 16, kAcross = kMmaWarpCols / 8;
  using Sums = ptx::FragmentC[kDown][kAcross][ptx::kLanesHere];

  template <bool bf16>
  SK_DEVICE void multiply(Sums& sums, uint32_t stage, uint32_t m, uint32_t n) {
#pragma unroll
    for (uint32_t k = 0; k < kMmaDepth; k += 16) {
      ptx::FragmentB b[kAcross][ptx::kLanesHere];
#pragma unroll
      for (uint32_t j = 0; j < kAcross; j += 2) load_b(b[j], b[j + 1], stage, n + j * 8, k);
#pragma unroll
      for (uint32_t i = 0; i < kDown; ++i) {
        ptx::FragmentA a[ptx::kLanesHere];
        load_a(a, stage, m + i * 16, k);
#pragma unroll
        for (uint32_t j = 0; j < kAcross; ++j) ptx::multiply_add<bf16>(sums[i][j], a, b[j]);
      }
    }
  }

  template <bool bf16>
  SK_DEVICE void block(uint32_t row0, uint32_t col0) {
    const uint32_t m = team_.warp() % 2 * kMmaWarpRows, n = team_.warp() / 2 * kMmaWarpCols;
    const uint32_t slices = (task_.k + kMmaDepth - 1) / kMmaDepth;
    Sums sums = {};
    for (uint32_t s = 0; s < kMmaStages - 1; ++s) load_slice(s, slices, row0, col0);
    for (uint32_t s = 0; s < slices; ++s) {
      ptx::wait_copies<int(kMmaStages) - 2>();
      team_.sync();  // Slice s is there for all, and all are done with the stage loaded next.
      load_slice(s + kMmaStages - 1, slices, row0, col0);
      multiply<bf16>(sums, s % kMmaStages, m, n);
    }
    ptx::wait_copies<0>();
    team_.sync();  // The stages become the place of the sums.
    stage(sums, m, n);
    team_.sync();
    emit_block(team_, task_, shared_.sums, row0, col0);
    team_.sync();
  }

  // Beyond the last slice an empty group, so that groups count slices.
  SK_DEVICE void load_slice(uint32_t slice, uint32_t slices, uint32_t row0, uint32_t col0) {
    if (slice < slices) {
      load(slice % kMmaStages, row0, col0, slice * kMmaDepth);
    } else {
      ptx::commit_copies();
    }
  }

  SK_DEVICE void stage(const Sums& sums, uint32_t m, uint32_t n) {
#pragma unroll
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t row = m + ptx::lane(l) / 4, col = n + ptx::lane(l) % 4 * 2;
#pragma unroll
      for (uint32_t i = 0; i < kDown; ++i)
#pragma unroll
        for (uint32_t j = 0; j < kAcross; ++j)
#pragma unroll
          for (uint32_t v = 0; v < 4; ++v)
            shared_.sums.value[row + i * 16 + v / 2 * 8][col + j * 8 + v % 2] =
                sums[i][j][l].value[v];
    }
  }

  const Team& team_;
  const GemmTask& task_;
  GemmMmaShared& shared_;
  const bool a_aligned_, b_aligned_;
};

SK_DEVICE void gemm_mma(const Team& team, const GemmTask& task, GemmMmaShared& shared) {
  GemmMma gemm(team, task, shared);
  if (task.dtype == DType::kBF16) {
    gemm.run<true>();
  } else {
    gemm.run<false>();
  }
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_GEMM_MMA_CUH_
