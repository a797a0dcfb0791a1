#include "lib/exec/cpu/tile/gemm_core.h"
#include "lib/exec/cpu/tile/isa_portable.h"

namespace sk::cpu {
namespace {

// 4 rows x 2 vectors of 16 bytes: what 16 registers hold.
template <typename T, typename Input>
struct PortableKernel {
  using Isa = Portable;
  using Sum = T;
  using Item = T;
  using In = Input;
  static constexpr int kElementsPerItem = 1;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 2;
  static constexpr int64_t kItemsMax = 256;
  static constexpr int64_t kRowsMax = 128;
  using V = Vec<T, Portable::kBytes>;
  static V madd(V sum, V a, V b) { return sum + a * b; }
};

}  // namespace

constinit const GemmKernel kGemmF32Portable =
    make_gemm_kernel<PortableKernel<float, Plain<Portable, float>>>("f32 portable", DType::kF32);
constinit const GemmKernel kGemmF64Portable =
    make_gemm_kernel<PortableKernel<double, Plain<Portable, double>>>("f64 portable", DType::kF64);
constinit const GemmKernel kGemmBf16Portable =
    make_gemm_kernel<PortableKernel<float, Bf16<Portable>>>("bf16 portable", DType::kBF16);
constinit const GemmKernel kGemmF16Portable =
    make_gemm_kernel<PortableKernel<float, F16<Portable>>>("f16 portable", DType::kF16);

}  // namespace sk::cpu
