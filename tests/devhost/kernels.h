// The kernels, compiled for the CPU, and which of them a plan takes.
#ifndef SK_TESTS_DEVHOST_KERNELS_H_
#define SK_TESTS_DEVHOST_KERNELS_H_

#include <string>

#include "tests/devhost/world.h"

namespace sk::devhost {

// As on sm_90a; `boxes` false: as on the others.
Kernel kernel_for(const Plan& plan, bool boxes = true);

// Runs the plan on what `world` has for inputs: "" or a sentence, of a failure or of what differs
// from what the op says.
std::string run(const Plan& plan, World& world, const Options& options = {}, bool boxes = true);

// The bare bf16 kernel on `blocks` blocks: C [m, n] of whole numbers, compared with their product.
std::string run_bare(int64_t m, int64_t n, int64_t k, uint32_t blocks, uint64_t seed);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_KERNELS_H_
