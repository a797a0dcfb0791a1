// Products of f32: 64 x 64 blocks of the tile in turn, four by four sums per thread, k ascending
// with fused multiply-adds. The matrix units have no f32 that is one.
#ifndef SK_CUDA_TILE_GEMM_F32_CUH_
#define SK_CUDA_TILE_GEMM_F32_CUH_

#include "cuda/tile/gemm.cuh"

namespace sk::cuda {

inline constexpr uint32_t kF32Block = 64, kF32Depth = 16, kF32Side = 4;
inline constexpr uint32_t kF32Pitch = kF32Block + 4;  // Elements: rows begin in other banks.

union GemmF32Shared {
  struct {
    float a[kF32Depth][kF32Pitch];
    float b[kF32Depth][kF32Pitch];
  };
  StagedSums<kF32Block> sums;
};

struct GemmF32Sums {
  float value[kF32Side][kF32Side];
};

// Columns of k in [k0, k0 + kF32Depth), zero beyond the edges.
SK_DEVICE void load_f32_block(const Team& team, const GemmTask& task, GemmF32Shared& shared,
                              uint32_t row0, uint32_t col0, uint32_t k0) {
  team.each(kF32Block * kF32Depth, [&](uint64_t i) {
    const uint32_t fast = uint32_t(i % kF32Depth), slow = uint32_t(i / kF32Depth);
    const uint32_t t_fast = uint32_t(i % kF32Block), t_slow = uint32_t(i / kF32Block);
    const uint32_t row = task.transpose_a ? t_fast : slow, ak = task.transpose_a ? t_slow : fast;
    const bool a_inside = row0 + row < task.rows && k0 + ak < task.k;
    const uint64_t a_at = task.transpose_a
                              ? (k0 + ak) * task.a_pitch + uint64_t(row0 + row) * sizeof(float)
                              : (row0 + row) * task.a_pitch + uint64_t(k0 + ak) * sizeof(float);
    shared.a[ak][row] = a_inside ? *reinterpret_cast<const float*>(task.a + a_at) : 0.0f;
    const uint32_t col = task.b_rows ? t_fast : slow, bk = task.b_rows ? t_slow : fast;
    const bool b_inside = col0 + col < task.cols && k0 + bk < task.k;
    const uint64_t b_at = task.b_rows
                              ? (k0 + bk) * task.b_pitch + uint64_t(col0 + col) * sizeof(float)
                              : (col0 + col) * task.b_pitch + uint64_t(k0 + bk) * sizeof(float);
    shared.b[bk][col] = b_inside ? *reinterpret_cast<const float*>(task.b + b_at) : 0.0f;
  });
}

// The team has (kF32Block / kF32Side) squared threads.
SK_DEVICE void gemm_f32_block(const Team& team, const GemmTask& task, GemmF32Shared& shared,
                              uint32_t row0, uint32_t col0) {
  constexpr uint32_t kAcross = kF32Block / kF32Side;
  GemmF32Sums sums[ptx::kLanesHere] = {};
  for (uint32_t k0 = 0; k0 < task.k; k0 += kF32Depth) {
    load_f32_block(team, task, shared, row0, col0, k0);
    team.sync();
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t lane = ptx::lane(l);
      const uint32_t thread = team.warp() * ptx::kLanes + lane;
      const uint32_t row = thread / kAcross * kF32Side, col = thread % kAcross * kF32Side;
      GemmF32Sums& mine = sums[l];
#pragma unroll
      for (uint32_t i = 0; i < kF32Depth; ++i)
#pragma unroll
        for (uint32_t r = 0; r < kF32Side; ++r)
#pragma unroll
          for (uint32_t c = 0; c < kF32Side; ++c)
            mine.value[r][c] =
                __builtin_fmaf(shared.a[i][row + r], shared.b[i][col + c], mine.value[r][c]);
    }
    team.sync();
  }
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
    const uint32_t thread = team.warp() * ptx::kLanes + lane;
    const uint32_t row = thread / kAcross * kF32Side, col = thread % kAcross * kF32Side;
#pragma unroll
    for (uint32_t r = 0; r < kF32Side; ++r)
#pragma unroll
      for (uint32_t c = 0; c < kF32Side; ++c)
        shared.sums.value[row + r][col + c] = sums[l].value[r][c];
  }
  team.sync();
  emit_block(team, task, shared.sums, row0, col0);
  team.sync();
}

SK_DEVICE void gemm_f32(const Team& team, const GemmTask& task, GemmF32Shared& shared) {
  for (uint32_t row0 = 0; row0 < task.rows; row0 += kF32Block)
    for (uint32_t col0 = 0; col0 < task.cols; col0 += kF32Block)
      gemm_f32_block(team, task, shared, row0, col0);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_GEMM_F32_CUH_
