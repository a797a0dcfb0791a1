// The AMX kernel with its tile instructions emulated: its blocking, packing and epilogues then run,
// and are tested, on every processor with AVX-512.
#ifndef SK_TESTS_UNIT_EXEC_CPU_TILE_AMX_EMULATION_H_
#define SK_TESTS_UNIT_EXEC_CPU_TILE_AMX_EMULATION_H_

#include "lib/exec/cpu/tile/gemm.h"

namespace sk::cpu::testing_support {

// "bf16 amx emulated"; needs CpuIsa::kAvx512.
const GemmKernel* emulated_amx_kernel();

}  // namespace sk::cpu::testing_support

#endif  // SK_TESTS_UNIT_EXEC_CPU_TILE_AMX_EMULATION_H_
