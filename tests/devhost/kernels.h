// The kernels, compiled for the CPU, and which of them a plan takes.
#ifndef SK_TESTS_DEVHOST_KERNELS_H_
#define SK_TESTS_DEVHOST_KERNELS_H_

#include <string>

#include "tests/devhost/world.h"

namespace sk::devhost {

// Whether they are compiled with SK_WATCH, as in programs that link sk_devhost_watched.
extern const bool kWatched;

// As on sm_90a; `boxes` false: as on the others. `pairs`: products, or copies and reductions, by
// two blocks of a cluster, where Options has that too.
Kernel kernel_for(const Plan& plan, bool boxes = true, bool pairs = false);

// Whether the kernel does such tasks, of products those of the type whose B lies so.
bool can(cuda::KernelId id, TaskOp op, DType dtype, cuda::LayoutB layout);

// Runs the plan on what `world` has for inputs: "" or a sentence, of a failure or of what differs
// from what the op says.
std::string run(const Plan& plan, World& world, const Options& options = {}, bool boxes = true);

// How the bare bf16 kernel is run.
struct Bare {
  uint32_t blocks = 1;
  bool pairs = false;
  uint32_t band_rows = 8;
  uint64_t seed = 1;
};
// C [m, n] of whole numbers by the bare kernel, compared with their product.
std::string run_bare(int64_t m, int64_t n, int64_t k, const Bare& bare);

}  // namespace sk::devhost

#endif  // SK_TESTS_DEVHOST_KERNELS_H_
