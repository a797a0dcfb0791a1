// Products of 64 x 16 by 16 x 256 or 16 x 128 matrices of 16-bit floats by a warpgroup (sm_90a),
// both from shared memory as load_box() lays it out (PTX ISA, "wgmma.mma_async").
//
// Asynchronous: sums may be read only behind wait_products(), and the operands overwritten too.
#ifndef SK_CUDA_PTX_WGMMA_CUH_
#define SK_CUDA_PTX_WGMMA_CUH_

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/operand.cuh"

namespace sk::cuda::ptx {

inline constexpr uint32_t kGroupWarps = 4;  // A warpgroup: warps 4 i to 4 i + 3.

// Sums of a thread: value 4 j + v is of row 16 w + l/4 + 8 (v/2) of the 64, where w is the warp in
// its group and l the lane, and of column 8 j + 2 (l%4) + v%2.
template <uint32_t cols>
struct ProductSums {
  float value[cols / 2];
};

SK_DEVICE uint64_t operand(const std::byte* at) { return operand_at(shared_address(at)); }
SK_DEVICE uint64_t turned_operand(const std::byte* at, uint32_t next) {
  return turned_operand_at(shared_address(at), next);
}

// Sums that ordinary code has written are the next products' too.
SK_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SK_DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
SK_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// The compiler must not move reads of `sums` before the wait.
template <uint32_t cols>
SK_DEVICE void pin(ProductSums<cols> (&sums)[kLanesHere]) {
#pragma unroll
  for (uint32_t i = 0; i < cols / 2; ++i) asm volatile("" : "+f"(sums[0].value[i])::"memory");
}

#define SK_SUMS_8(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SK_SUMS_32(i) SK_SUMS_8(i), SK_SUMS_8(i + 8), SK_SUMS_8(i + 16), SK_SUMS_8(i + 24)
#define SK_MULTIPLY_256(type)                                         \
  asm volatile(                                                       \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                   \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type    \
      " {"                                                            \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                              \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                        \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                      \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                      \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                      \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                      \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                      \
      "%56, %57, %58, %59, %60, %61, %62, %63, "                      \
      "%64, %65, %66, %67, %68, %69, %70, %71, "                      \
      "%72, %73, %74, %75, %76, %77, %78, %79, "                      \
      "%80, %81, %82, %83, %84, %85, %86, %87, "                      \
      "%88, %89, %90, %91, %92, %93, %94, %95, "                      \
      "%96, %97, %98, %99, %100, %101, %102, %103, "                  \
      "%104, %105, %106, %107, %108, %109, %110, %111, "              \
      "%112, %113, %114, %115, %116, %117, %118, %119, "              \
      "%120, %121, %122, %123, %124, %125, %126, %127}, "             \
      "%128, %129, p, 1, 1, 0, %131;\n}"                              \
      : SK_SUMS_32(0), SK_SUMS_32(32), SK_SUMS_32(64), SK_SUMS_32(96) \
      : "l"(a), "l"(b), "r"(int32_t(add)), "n"(int32_t(turned_b)))

#define SK_MULTIPLY_128(type)                                      \
  asm volatile(                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                 \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
      " {"                                                         \
      "%0, %1, %2, %3, %4, %5, %6, %7, "                           \
      "%8, %9, %10, %11, %12, %13, %14, %15, "                     \
      "%16, %17, %18, %19, %20, %21, %22, %23, "                   \
      "%24, %25, %26, %27, %28, %29, %30, %31, "                   \
      "%32, %33, %34, %35, %36, %37, %38, %39, "                   \
      "%40, %41, %42, %43, %44, %45, %46, %47, "                   \
      "%48, %49, %50, %51, %52, %53, %54, %55, "                   \
      "%56, %57, %58, %59, %60, %61, %62, %63}, "                  \
      "%64, %65, p, 1, 1, 0, %67;\n}"                              \
      : SK_SUMS_32(0), SK_SUMS_32(32)                              \
      : "l"(a), "l"(b), "r"(int32_t(add)), "n"(int32_t(turned_b)))

// sums = a b, or with `add` sums + a b. All four warps of the group, after begin_products().
// `turned_b`: b is a turned_operand().
template <bool bf16, bool turned_b, uint32_t cols>
SK_DEVICE void multiply_async(ProductSums<cols> (&sums)[kLanesHere], uint64_t a, uint64_t b,
                              bool add) {
  static_assert(cols == 256 || cols == 128);
  float* d = sums[0].value;
  if constexpr (cols == 256 && bf16) {
    SK_MULTIPLY_256("bf16");
  } else if constexpr (cols == 256) {
    SK_MULTIPLY_256("f16");
  } else if constexpr (bf16) {
    SK_MULTIPLY_128("bf16");
  } else {
    SK_MULTIPLY_128("f16");
  }
}

#undef SK_MULTIPLY_256
#undef SK_MULTIPLY_128
#undef SK_SUMS_32
#undef SK_SUMS_8

// Registers per thread of this warpgroup from here on; all its warps say the same.
template <uint32_t count>
SK_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <uint32_t count>
SK_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_WGMMA_CUH_
