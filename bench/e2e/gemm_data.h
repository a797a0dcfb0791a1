// Data of the GEMM benchmarks: small random integers, so that every sum is exact in f32 and the
// result can be checked in every element without computing the product again.
#ifndef SK_BENCH_E2E_GEMM_DATA_H_
#define SK_BENCH_E2E_GEMM_DATA_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace sk_bench {

struct Shape {
  int64_t m, n, k;
};

// An integer in [-64, 63]: exact in bf16; 16 ranks' sums over K = 2048 stay below 2^27, two ranks'
// below 2^24 and so exact in f32.
inline float gemm_value(uint32_t rank, uint32_t which, uint32_t i) {
  uint32_t x = i * 0x9E3779B1u + rank * 0x85EBCA6Bu + which * 0xC2B2AE35u + 0x27D4EB2Fu;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  x ^= x >> 13;
  return static_cast<float>(static_cast<int32_t>(x & 127u) - 64);
}

// Which: buffer set for A (0, 1, 2), kWeights for B.
constexpr uint32_t kWeights = 1000;

inline std::vector<float> gemm_matrix(int rank, uint32_t which, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    x[static_cast<size_t>(i)] =
        gemm_value(static_cast<uint32_t>(rank), which, static_cast<uint32_t>(i));
  }
  return x;
}

inline uint16_t to_bf16(float x) {  // Exact for the values above.
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// y += M * x for a row-major matrix, in f64.
inline void multiply_add(const float* matrix, int64_t rows, int64_t cols, const double* x,
                         double* y) {
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0.0;
    for (int64_t j = 0; j < cols; ++j) sum += static_cast<double>(matrix[i * cols + j]) * x[j];
    y[i] += sum;
  }
}

// Freivalds' check: C x against the sum over ranks [first, last) of A_r (B_r x), for a random
// integer x. All is exact, so a single wrong element of C differs with near certainty. Returns the
// first wrong row, or -1. Where `weights_of` is a rank all multiply its B.
inline int64_t gemm_wrong_row(const Shape& s, uint32_t which, const float* c, int first, int last,
                              uint32_t seed, int weights_of = -1) {
  std::vector<double> x(static_cast<size_t>(s.n)), expected(static_cast<size_t>(s.m)),
      got(static_cast<size_t>(s.m));
  for (int64_t j = 0; j < s.n; ++j) {
    x[static_cast<size_t>(j)] =
        1000.0 + gemm_value(seed, 7777, static_cast<uint32_t>(j));  // Never 0: no column escapes.
  }
  for (int rank = first; rank < last; ++rank) {
    const auto a = gemm_matrix(rank, which, s.m * s.k),
               b = gemm_matrix(weights_of >= 0 ? weights_of : rank, kWeights, s.k * s.n);
    std::vector<double> bx(static_cast<size_t>(s.k));
    multiply_add(b.data(), s.k, s.n, x.data(), bx.data());
    for (int64_t i = 0; i < s.m; ++i) {
      double sum = 0.0;
      for (int64_t j = 0; j < s.k; ++j) {
        sum +=
            static_cast<double>(a[static_cast<size_t>(i * s.k + j)]) * bx[static_cast<size_t>(j)];
      }
      expected[static_cast<size_t>(i)] += sum;
    }
  }
  multiply_add(c, s.m, s.n, x.data(), got.data());
  for (int64_t i = 0; i < s.m; ++i) {
    // NaN (poison) compares unequal to everything.
    if (!(got[static_cast<size_t>(i)] == expected[static_cast<size_t>(i)])) return i;
  }
  return -1;
}

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_GEMM_DATA_H_
