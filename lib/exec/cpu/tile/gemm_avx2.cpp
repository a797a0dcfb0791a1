#include "lib/exec/cpu/tile/gemm_core.h"
#include "lib/exec/cpu/tile/isa_avx2.h"

namespace sk::cpu {
namespace {

// 6 rows x 2 vectors: 12 of 16 registers hold sums.
template <typename T, typename Input>
struct Avx2Kernel {
  using Isa = Avx2;
  using Sum = T;
  using Item = T;
  using In = Input;
  static constexpr int kElementsPerItem = 1;
  static constexpr int kRows = 6;
  static constexpr int kVectors = 2;
  static constexpr int64_t kItemsMax = 2048 / sizeof(T);
  static constexpr int64_t kRowsMax = 96;
  static Vec<float, 32> madd(Vec<float, 32> sum, Vec<float, 32> a, Vec<float, 32> b) {
    return _mm256_fmadd_ps(a, b, sum);
  }
  static Vec<double, 32> madd(Vec<double, 32> sum, Vec<double, 32> a, Vec<double, 32> b) {
    return _mm256_fmadd_pd(a, b, sum);
  }
};

}  // namespace

constinit const GemmKernel kGemmF32Avx2 =
    make_gemm_kernel<Avx2Kernel<float, Plain<Avx2, float>>>("f32 avx2", DType::kF32);
constinit const GemmKernel kGemmF64Avx2 =
    make_gemm_kernel<Avx2Kernel<double, Plain<Avx2, double>>>("f64 avx2", DType::kF64);
constinit const GemmKernel kGemmBf16Avx2 =
    make_gemm_kernel<Avx2Kernel<float, Bf16<Avx2>>>("bf16 avx2", DType::kBF16);
constinit const GemmKernel kGemmF16Avx2 =
    make_gemm_kernel<Avx2Kernel<float, F16<Avx2>>>("f16 avx2", DType::kF16);

}  // namespace sk::cpu
