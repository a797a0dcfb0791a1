// kGemm by warpgroups: how sums get from registers to C.
//
// A warp has 16 rows of a block. Of each group of eight columns a thread has two neighbours of two
// rows, eight apart (ptx::ProductSums); four threads have such a row between them. Of 16-bit
// elements the four trade, over four groups, so that each has a group's whole row: 16 bytes, and
// the four of them 64 bytes side by side. Of f32 each stores its 8 bytes, and the four 32: a sector
// of the caches. Nothing waits for what is stored but the task's posts.
#ifndef SK_CUDA_TILE_GEMM_STORE_CUH_
#define SK_CUDA_TILE_GEMM_STORE_CUH_

#include "cuda/ptx/quad.cuh"
#include "cuda/tile/gemm.cuh"

namespace sk::cuda {

inline constexpr uint32_t kStoredGroups = 4;  // Of columns, at a time.

// Value 4 i + v is of group i, column v % 2 of the thread's two, row v / 2.
struct SumsOfLane {
  float value[kStoredGroups * 4];
};

// A warp's 16 rows of a task's C, as far as they are inside, from a column on.
class WarpRows {
 public:
  SK_DEVICE WarpRows(const GemmTask& task, uint32_t row0, uint32_t col0)
      : task_(task),
        element_(uint32_t(dtype_bytes(task.out_dtype))),
        pitch_(task.record.c_pitch),
        first_(task.c()[0] + row0 * pitch_ + uint64_t(col0) * element_),
        copies_(task.record.copies),
        rows_(row0 < task.rows ? task.rows - row0 : 0),
        cols_(task.cols - col0),
        takes_units_(
            is_aligned(address_bits(task.c(), task.record.copies, task.record.c_pitch, task.rows) |
                           cols_ * element_,
                       element_ == 4 ? 8 : 16)) {}

  SK_DEVICE DType dtype() const { return task_.out_dtype; }
  // Whether all units, of 16 bytes or of two f32, that begin inside are inside, and C takes them.
  SK_DEVICE bool takes_units() const { return takes_units_; }

  // In each copy.
  SK_DEVICE void put(uint32_t row, uint32_t col, const ptx::Bytes16& unit) const {
    each(row, col, [&](std::byte* at) { ptx::store16(at, unit); });
  }
  SK_DEVICE void put(uint32_t row, uint32_t col, const ptx::Bytes8& unit) const {
    each(row, col, [&](std::byte* at) { ptx::store8(at, unit); });
  }
  template <DType dtype>
  SK_DEVICE void put_element(uint32_t row, uint32_t col, float value) const {
    each(row, col, [&](std::byte* at) { store_element(dtype, at, value); });
  }

 private:
  template <typename Fn>
  SK_DEVICE void each(uint32_t row, uint32_t col, const Fn& fn) const {
    if (row >= rows_ || col >= cols_) return;
    std::byte* const at = first_ + (row * pitch_ + col * element_);
    fn(at);
#pragma unroll 1
    for (uint32_t copy = 1; copy < copies_; ++copy) fn(at + (task_.c()[copy] - task_.c()[0]));
  }

  // All that a store needs is held: what is read from shared memory for each is what stores wait
  // for.
  const GemmTask& task_;
  const uint32_t element_;
  const uint64_t pitch_;
  std::byte* const first_;  // In the first copy, the others are as far from it as their C is.
  const uint32_t copies_;
  const uint32_t rows_, cols_;
  const bool takes_units_;
};

// By a whole warp: four groups of columns, from `col` on. Where C does not take units, element by
// element.
template <DType dtype>
SK_DEVICE void store_elements(const WarpRows& to, const SumsOfLane (&sums)[ptx::kLanesHere],
                              uint32_t col) {
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
#pragma unroll
    for (uint32_t v = 0; v < kStoredGroups * 4; ++v) {
      const uint32_t row = lane / 4 + 8 * (v / 2 % 2);
      to.put_element<dtype>(row, col + 8 * (v / 4) + lane % 4 * 2 + v % 2, sums[l].value[v]);
    }
  }
}

SK_DEVICE void store_floats(const WarpRows& to, const SumsOfLane (&sums)[ptx::kLanesHere],
                            uint32_t col) {
  for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
    const uint32_t lane = ptx::lane(l);
#pragma unroll
    for (uint32_t v = 0; v < kStoredGroups * 4; v += 2) {
      const float* const pair = sums[l].value + v;
      to.put(lane / 4 + 8 * (v / 2 % 2), col + 8 * (v / 4) + lane % 4 * 2,
             ptx::Bytes8{std::bit_cast<uint32_t>(pair[0]), std::bit_cast<uint32_t>(pair[1])});
    }
  }
}

// Of 16 bits.
template <DType dtype>
SK_DEVICE void store_halves(const WarpRows& to, const SumsOfLane (&sums)[ptx::kLanesHere],
                            uint32_t col) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    ptx::QuadWords words[ptx::kLanesHere];
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
#pragma unroll
      for (uint32_t i = 0; i < kStoredGroups; ++i) {
        const float* const pair = sums[l].value + 4 * i + 2 * half;
        words[l].word[i] = Packed<dtype>::put(pair[0], 0) | Packed<dtype>::put(pair[1], 1);
      }
    }
    ptx::turn_quads(words);
    for (uint32_t l = 0; l < ptx::kLanesHere; ++l) {
      const uint32_t lane = ptx::lane(l);
      const uint32_t* const w = words[l].word;
      to.put(lane / 4 + 8 * half, col + lane % 4 * 8, ptx::Bytes16{w[0], w[1], w[2], w[3]});
    }
  }
}

template <DType dtype>
SK_DEVICE void store_groups(const WarpRows& to, const SumsOfLane (&sums)[ptx::kLanesHere],
                            uint32_t col) {
  if (to.dtype() == DType::kF32) {
    if (to.takes_units()) return store_floats(to, sums, col);
    return store_elements<DType::kF32>(to, sums, col);
  }
  if (to.takes_units()) return store_halves<dtype>(to, sums, col);
  store_elements<dtype>(to, sums, col);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_GEMM_STORE_CUH_
