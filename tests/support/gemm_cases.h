// Fused products for tests of GPU kernels.
#ifndef SK_TESTS_SUPPORT_GEMM_CASES_H_
#define SK_TESTS_SUPPORT_GEMM_CASES_H_

#include <string>

#include "lib/plan/plan.h"

namespace sk::testing_support {

// Shapes and types of a product with the tiles of a GPU.
struct GemmCase {
  int64_t m, n, k;
  DType dtype = DType::kBF16, out_dtype = DType::kBF16;
  uint32_t ranks = 2, workers = 2;
  bool symmetric = true;  // C is mapped.
  bool mapped = true;
  bool transpose_a = false, transpose_b = false;
  uint32_t tile_m = 128, tile_n = 256;
  int64_t pad_a = 0, pad_b = 0, pad_c = 0;  // Elements between rows.
  bool packed_by_all = true;                // Every queue packs some columns of B.
  bool raw_b = false;                       // Nobody packs it.
  bool gathers = false;  // A of all ranks times the own B, in place of a sum of all ranks'.
};
// B is packed in the run, its columns whole units of 16 bytes, or read as it lies.
Plan plan_gemm(const GemmCase& c);
std::string describe(const GemmCase& c);

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_GEMM_CASES_H_
