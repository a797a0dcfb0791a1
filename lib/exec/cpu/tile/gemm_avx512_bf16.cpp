#include "lib/exec/cpu/tile/gemm_core.h"
#include "lib/exec/cpu/tile/isa_avx512.h"

namespace sk::cpu {
namespace {

// An item is a pair of bf16 along k; one instruction adds both products to an f32 sum. It takes
// denormal inputs as zero.
struct Avx512Bf16Kernel {
  using Isa = Avx512;
  using Sum = float;
  using Item = uint32_t;
  using In = Bf16<Avx512>;
  static constexpr int kElementsPerItem = 2;
  static constexpr int kRows = 14;
  static constexpr int kVectors = 2;
  static constexpr int64_t kItemsMax = 1024;
  static constexpr int64_t kRowsMax = 112;
  static Vec<float, 64> madd(Vec<float, 64> sum, Vec<uint32_t, 64> a, Vec<uint32_t, 64> b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

constinit const GemmKernel kGemmBf16Avx512Bf16 =
    make_gemm_kernel<Avx512Bf16Kernel>("bf16 avx512_bf16", DType::kBF16);

}  // namespace sk::cpu
