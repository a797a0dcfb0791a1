#include "lib/exec/cpu/tile/gemm_core.h"
#include "lib/exec/cpu/tile/isa_avx512.h"

namespace sk::cpu {
namespace {

// 14 rows x 2 vectors: 28 of 32 registers hold sums.
template <typename T, typename Input>
struct Avx512Kernel {
  using Isa = Avx512;
  using Sum = T;
  using Item = T;
  using In = Input;
  static constexpr int kElementsPerItem = 1;
  static constexpr int kRows = 14;
  static constexpr int kVectors = 2;
  static constexpr int64_t kItemsMax = 2048 / sizeof(T);
  static constexpr int64_t kRowsMax = 112;
  static Vec<float, 64> madd(Vec<float, 64> sum, Vec<float, 64> a, Vec<float, 64> b) {
    return _mm512_fmadd_ps(a, b, sum);
  }
  static Vec<double, 64> madd(Vec<double, 64> sum, Vec<double, 64> a, Vec<double, 64> b) {
    return _mm512_fmadd_pd(a, b, sum);
  }
};

}  // namespace

constinit const GemmKernel kGemmF32Avx512 =
    make_gemm_kernel<Avx512Kernel<float, Plain<Avx512, float>>>("f32 avx512", DType::kF32);
constinit const GemmKernel kGemmF64Avx512 =
    make_gemm_kernel<Avx512Kernel<double, Plain<Avx512, double>>>("f64 avx512", DType::kF64);
constinit const GemmKernel kGemmBf16Avx512 =
    make_gemm_kernel<Avx512Kernel<float, Bf16<Avx512>>>("bf16 avx512", DType::kBF16);
constinit const GemmKernel kGemmF16Avx512 =
    make_gemm_kernel<Avx512Kernel<float, F16<Avx512>>>("f16 avx512", DType::kF16);

}  // namespace sk::cpu
