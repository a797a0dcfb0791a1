// cuda/ptx/wgmma.cuh on the CPU: each warp's 16 rows of a product are one job of the engine.
#ifndef SK_CUDA_PTX_WGMMA_CUH_
#define SK_CUDA_PTX_WGMMA_CUH_

#include <cstring>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "tests/devhost/planted.h"

namespace sk::cuda::ptx {

inline constexpr uint32_t kGroupWarps = 4;

template <uint32_t cols>
struct ProductSums {
  float value[cols / 2];
};

// As the hardware's descriptor, but with a whole address: 18 bits do not name a host's memory.
inline uint64_t operand(const std::byte* at) { return reinterpret_cast<uint64_t>(at); }

// Element (row, k) of an operand whose swizzled rows of 128 bytes begin at a multiple of 1024: the
// hardware swizzles addresses, so an operand that begins k elements further is found all the same.
template <bool bf16>
float operand_element(uint64_t operand, uint32_t row, uint32_t k) {
  const uint64_t address = operand + row * 128 + k * 2;
  uint16_t bits;
  const uint64_t swizzled = address ^ (address >> 7 & 7) << 4;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the hardware's operands are addresses too.
  std::memcpy(&bits, reinterpret_cast<const void*>(swizzled), 2);
  return bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

template <bool bf16, uint32_t cols>
void multiply_rows(ProductSums<cols>* sums, uint64_t a, uint64_t b, bool add, uint32_t first_row) {
  float left[16][16];
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t k = 0; k < 16; ++k) left[row][k] = operand_element<bf16>(a, first_row + row, k);
  for (uint32_t column = 0; column < cols; ++column) {
    float right[16];
    for (uint32_t k = 0; k < 16; ++k) right[k] = operand_element<bf16>(b, column, k);
    for (uint32_t row = 0; row < 16; ++row) {
      const uint32_t lane = row % 8 * 4 + column % 8 / 2;
      float& sum = sums[lane].value[column / 8 * 4 + row / 8 * 2 + column % 2];
      if (!add) sum = 0;
      for (uint32_t k = 0; k < 16; ++k) sum += left[row][k] * right[k];
    }
  }
}

inline void begin_products() {}

template <bool bf16, uint32_t cols>
void multiply_async(ProductSums<cols> (&sums)[kLanesHere], uint64_t a, uint64_t b, bool add) {
  const uint32_t first_row = warp() % kGroupWarps * 16;
  ProductSums<cols>* const to = sums;
  devhost::this_warp().products.push_back([=] { multiply_rows<bf16>(to, a, b, add, first_row); });
}
inline void commit_products() {
  devhost::Warp& warp = devhost::this_warp();
  warp.product_groups.push_back(devhost::Engine::get().begin(
      [products = std::move(warp.products)] {
        for (const auto& product : products) product();
      },
      reinterpret_cast<uint64_t>(&warp)));
  warp.products.clear();
}
template <int pending>
void wait_products() {
  if (pending > 0 && devhost::planted.early_stage) return;
  devhost::wait_groups(devhost::this_warp().product_groups, pending);
}
template <uint32_t cols>
void pin(ProductSums<cols> (&)[kLanesHere]) {}

template <uint32_t count>
void give_registers() {}
template <uint32_t count>
void take_registers() {}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_WGMMA_CUH_
