// Descriptors of operands of wgmma in shared memory (PTX ISA, "Matrix Descriptor Format"), as
// load_box() lays them out: rows of 128 bytes, eight of them 1024 bytes, 128-byte swizzle.
#ifndef SK_CUDA_PTX_OPERAND_CUH_
#define SK_CUDA_PTX_OPERAND_CUH_

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

// `address` in shared memory; offsets in bytes, multiples of 16.
SK_DEVICE uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
  return kSwizzle128 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 |
         (address & 0x3ffff) >> 4;
}

inline constexpr uint32_t kEightRows = 1024;

// k along the rows, of which there is one for each row of A, or column of B. `address`: of the
// first one, plus 32 bytes for each 16 elements of k passed.
SK_DEVICE uint64_t operand_at(uint32_t address) {
  constexpr uint32_t kUnused = 16;  // The leading offset, with this layout.
  return descriptor(address, kUnused, kEightRows);
}

// A row for each element of k, and along it 64 columns of B (rows of A): what wgmma calls
// transposed. The next 64 lie `next` bytes on. `address`: of the first row, plus 128 bytes for each
// element of k passed, of which there are 16 at a time.
SK_DEVICE uint64_t turned_operand_at(uint32_t address, uint32_t next) {
  return descriptor(address, next, kEightRows);
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_OPERAND_CUH_
