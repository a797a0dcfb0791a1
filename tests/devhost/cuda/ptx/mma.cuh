// cuda/ptx/mma.cuh on the CPU: fragments laid out over the lanes as the PTX ISA draws them.
#ifndef SK_CUDA_PTX_MMA_CUH_
#define SK_CUDA_PTX_MMA_CUH_

#include <cstring>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace sk::cuda::ptx {

struct FragmentA {
  uint32_t pair[4];
};
struct FragmentB {
  uint32_t pair[2];
};
struct FragmentC {
  float value[4];
};

template <bool transposed>
void load_matrices(uint32_t (&out)[kLanesHere][4], const std::byte* const (&row)[kLanesHere]) {
  for (uint32_t matrix = 0; matrix < 4; ++matrix) {
    uint16_t element[8][8];
    for (uint32_t r = 0; r < 8; ++r) std::memcpy(element[r], row[matrix * 8 + r], 16);
    for (uint32_t l = 0; l < kLanes; ++l) {
      const uint32_t across = l / 4, along = l % 4 * 2;
      const uint16_t low = transposed ? element[along][across] : element[across][along];
      const uint16_t high = transposed ? element[along + 1][across] : element[across][along + 1];
      out[l][matrix] = uint32_t(low) | uint32_t(high) << 16;
    }
  }
}

template <bool bf16>
float half_of(uint32_t pair, uint32_t which) {
  const auto bits = uint16_t(pair >> (16 * which));
  return bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

template <bool bf16>
void multiply_add(FragmentC (&c)[kLanesHere], const FragmentA (&a)[kLanesHere],
                  const FragmentB (&b)[kLanesHere]) {
  float left[16][16], right[16][8];
  for (uint32_t l = 0; l < kLanes; ++l) {
    for (uint32_t v = 0; v < 8; ++v) {
      const uint32_t part = v / 2;
      left[l / 4 + part % 2 * 8][l % 4 * 2 + v % 2 + part / 2 * 8] =
          half_of<bf16>(a[l].pair[part], v % 2);
    }
    for (uint32_t v = 0; v < 4; ++v)
      right[l % 4 * 2 + v % 2 + v / 2 * 8][l / 4] = half_of<bf16>(b[l].pair[v / 2], v % 2);
  }
  for (uint32_t l = 0; l < kLanes; ++l) {
    for (uint32_t v = 0; v < 4; ++v) {
      const uint32_t row = l / 4 + v / 2 * 8, column = l % 4 * 2 + v % 2;
      float sum = c[l].value[v];
      for (uint32_t k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
      c[l].value[v] = sum;
    }
  }
}

inline void copy16_async(std::byte* to, const std::byte* from, uint32_t bytes) {
  devhost::this_warp().copies.push_back({to, from, bytes, 16});
}

inline void commit_copies() {
  devhost::Warp& warp = devhost::this_warp();
  // What is read before it has been waited for shall be seen.
  for (const devhost::Copy& copy : warp.copies) std::memset(copy.to, 0xa5, copy.size);
  warp.copy_groups.push_back(devhost::Engine::get().begin([copies = std::move(warp.copies)] {
    for (const devhost::Copy& copy : copies) {
      if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(copy.to + copy.bytes, 0, copy.size - copy.bytes);
    }
  }));
  warp.copies.clear();
}

template <int pending>
void wait_copies() {
  devhost::wait_groups(devhost::this_warp().copy_groups, pending);
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MMA_CUH_
