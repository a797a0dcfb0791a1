// Warp-wide products of small matrices of 16-bit floats: mma.sync and the loads that feed it
// (PTX ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix").
//
// Fragments are per lane: [kLanesHere] is their first dimension everywhere.
#ifndef SK_CUDA_PTX_MMA_CUH_
#define SK_CUDA_PTX_MMA_CUH_

#include "cuda/ptx/mbarrier.cuh"

namespace sk::cuda::ptx {

struct FragmentA {
  uint32_t pair[4];  // 16 x 16: rows l/4 and l/4 + 8, columns 2 (l%4), + 1, and + 8, + 9.
};
struct FragmentB {
  uint32_t pair[2];  // 16 x 8 (k x n): k 2 (l%4), + 1, and + 8, + 9; column l/4.
};
struct FragmentC {
  float value[4];  // 16 x 8: row l/4, columns 2 (l%4), + 1; the same of row l/4 + 8.
};

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l%8 of matrix l/8, and
// gets of each matrix elements 2 (l%4), + 1 of row l/4 (`transposed`: of column l/4).
template <bool transposed>
SK_DEVICE void load_matrices(uint32_t (&out)[kLanesHere][4],
                             const std::byte* const (&row)[kLanesHere]) {
  uint32_t* r = out[0];
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row[0]))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row[0]))
                 : "memory");
  }
}

// c += a b, with float sums; bf16 elements, else f16.
template <bool bf16>
SK_DEVICE void multiply_add(FragmentC (&c)[kLanesHere], const FragmentA (&a)[kLanesHere],
                            const FragmentB (&b)[kLanesHere]) {
  float* v = c[0].value;
  const uint32_t *x = a[0].pair, *y = b[0].pair;
  if constexpr (bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
}

// 16 bytes from global to shared memory, of which the first `bytes` are read and the others zero;
// done once the group that it is committed to has been waited for.
SK_DEVICE void copy16_async(std::byte* to, const std::byte* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
// What this thread has begun since the last one is a group.
SK_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `pending` of its groups are not done.
template <int pending>
SK_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MMA_CUH_
