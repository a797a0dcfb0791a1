// cuda/ptx/wgmma.cuh on the CPU: each warp's 16 rows of a product are one job of the engine.
#ifndef SK_CUDA_PTX_WGMMA_CUH_
#define SK_CUDA_PTX_WGMMA_CUH_

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/operand.cuh"
#include "tests/devhost/planted.h"

namespace sk::cuda::ptx {

inline constexpr uint32_t kGroupWarps = 4;

template <uint32_t cols>
struct ProductSums {
  float value[cols / 2];
};

// In this block's shared memory, as the hardware counts.
inline uint32_t shared_offset(const std::byte* at) {
  return uint32_t(at - devhost::this_warp().block->shared);
}
inline uint64_t operand(const std::byte* at) { return operand_at(shared_offset(at)); }
inline uint64_t turned_operand(const std::byte* at, uint32_t next) {
  const uint64_t is = turned_operand_at(shared_offset(at), next);
  if (!devhost::planted.swapped_offsets) return is;
  constexpr uint64_t kOffset = 0x3fff;
  return (is & ~(kOffset << 16 | kOffset << 32)) | (is >> 32 & kOffset) << 16 |
         (is >> 16 & kOffset) << 32;
}

// An operand, as PTX ISA reads its descriptor: nothing here knows who made it.
class Operand {
 public:
  Operand(const std::byte* shared, uint64_t descriptor, bool turned)
      : shared_(shared),
        start_(field(descriptor, 0)),
        leading_(field(descriptor, 16)),
        stride_(field(descriptor, 32)),
        turned_(turned) {
    constexpr uint64_t kUsed = 0x3fff | uint64_t(0x3fff) << 16 | uint64_t(0x3fff) << 32;
    // 128-byte swizzle, whose pattern begins at multiples of 1024 bytes; all else is zero.
    if ((descriptor & ~kUsed) == uint64_t(1) << 62) return;
    std::fprintf(stderr, "noticed: an operand of descriptor %016lx\n", (unsigned long)descriptor);
    std::_Exit(1);
  }

  // Element k of row `place` of A, or of column `place` of B. In units of eight elements, canonical
  // layouts are, where k is along the rows, ((8, n), 2) : ((8 units, stride), 1 unit), and turned,
  // ((8, n), (8, 2)) : ((1 unit, leading), (8 units, stride)). Addresses are swizzled as a whole.
  template <bool bf16>
  float element(uint32_t place, uint32_t k) const {
    constexpr uint32_t kUnit = 16, kRow = 8 * kUnit, kAddresses = 1 << 18;
    const uint32_t at = turned_
                            ? place % 8 * 2 + place / 8 % 8 * kUnit + place / 64 * leading_ +
                                  k % 8 * kRow + k / 8 * stride_
                            : place % 8 * kRow + place / 8 * stride_ + k / 8 * kUnit + k % 8 * 2;
    const uint32_t address = (start_ + at) % kAddresses;
    uint16_t bits;
    std::memcpy(&bits, shared_ + (address ^ (address >> 7 & 7) << 4), 2);
    return bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }

 private:
  static uint32_t field(uint64_t descriptor, uint32_t bit) {
    return uint32_t(descriptor >> bit & 0x3fff) << 4;
  }

  const std::byte* const shared_;
  const uint32_t start_, leading_, stride_;
  const bool turned_;
};

template <bool bf16, uint32_t cols>
void multiply_rows(ProductSums<cols>* sums, const Operand& a, const Operand& b, bool add,
                   uint32_t first_row) {
  float left[16][16];
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t k = 0; k < 16; ++k) left[row][k] = a.element<bf16>(first_row + row, k);
  for (uint32_t column = 0; column < cols; ++column) {
    float right[16];
    for (uint32_t k = 0; k < 16; ++k) right[k] = b.element<bf16>(column, k);
    for (uint32_t row = 0; row < 16; ++row) {
      const uint32_t lane = row % 8 * 4 + column % 8 / 2;
      float& sum = sums[lane].value[column / 8 * 4 + row / 8 * 2 + column % 2];
      if (!add) sum = 0;
      for (uint32_t k = 0; k < 16; ++k) sum += left[row][k] * right[k];
    }
  }
}

inline void begin_products() {}

template <bool bf16, bool turned_b, uint32_t cols>
void multiply_async(ProductSums<cols> (&sums)[kLanesHere], uint64_t a, uint64_t b, bool add) {
  const uint32_t first_row = warp() % kGroupWarps * 16;
  ProductSums<cols>* const to = sums;
  const std::byte* const shared = devhost::this_warp().block->shared;
  const Operand left(shared, a, /*turned=*/false), right(shared, b, turned_b);
  devhost::this_warp().products.push_back(
      [=] { multiply_rows<bf16>(to, left, right, add, first_row); });
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
