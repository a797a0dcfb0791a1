// Which instruction sets the tile kernels may use on this machine.
#ifndef SK_LIB_EXEC_CPU_TILE_CPU_FEATURES_H_
#define SK_LIB_EXEC_CPU_TILE_CPU_FEATURES_H_

#include <cstdint>
#include <string_view>

#include "lib/base/status.h"

namespace sk::cpu {

// Each level includes the ones before it.
enum class CpuIsa : uint8_t {
  kPortable = 0,    // Plain C++.
  kAvx2 = 1,        // AVX2, FMA, F16C.
  kAvx512 = 2,      // AVX-512 F, BW, DQ, VL.
  kAvx512Bf16 = 3,  // and BF16.
  kAmx = 4,         // and AMX tiles with bf16, permitted by the kernel.
};

// "portable", "avx2", "avx512", "avx512_bf16", "amx".
const char* cpu_isa_name(CpuIsa isa);
Result<CpuIsa> parse_cpu_isa(std::string_view name);

// What the processor and the operating system offer. The first call asks the system for the AMX
// tile state, a permission of the whole process.
CpuIsa machine_isa();

// The lower of machine_isa() and SK_CPU_ISA, read once. With a name that is none, machine_isa();
// cpu_isa_status() then holds the sentence, which whoever creates a communicator reports.
CpuIsa cpu_isa();
const Status& cpu_isa_status();

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_CPU_FEATURES_H_
