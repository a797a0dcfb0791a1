// The kernels, compiled for the CPU, and which of them a plan takes.
#ifndef SK_TESTS_DEVHOST_KERNELS_H_
#define SK_TESTS_DEVHOST_KERNELS_H_

#include <string>

#include "lib/algo/planner.h"
#include "tests/devhost/world.h"

namespace sk::devhost {

// As on sm_90a; `boxes` false: as on the others.
Kernel kernel_for(const Plan& plan, bool boxes = true);

// Runs the plan on what `world` has for inputs: "" or a sentence, of a failure or of what differs
// from what the op says.
std::string run(const Plan& plan, World& world, const Options& options = {}, bool boxes = true);

// A GEMM of these shapes with its data's types, planned for a GPU of few workers.
struct GemmCase {
  int64_t m, n, k;
  DType dtype = DType::kBF16, out_dtype = DType::kBF16;
  uint32_t ranks = 2, workers = 2;
  bool symmetric = true;  // C is mapped.
  bool mapped = true;
  bool transpose_a = false, transpose_b = false;
  uint32_t tile_m = 128, tile_n = 256;
  int64_t pad_a = 0, pad_c = 0;  // Elements between rows.
};
Plan plan_gemm(const GemmCase& c);

// The bare bf16 kernel on `blocks` blocks: C [m, n] of whole numbers, compared with their product.
std::string run_bare(int64_t m, int64_t n, int64_t k, uint32_t blocks, uint64_t seed);
std::string describe(const GemmCase& c);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_KERNELS_H_
