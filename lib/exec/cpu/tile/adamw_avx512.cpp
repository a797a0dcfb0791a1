#include "lib/exec/cpu/tile/adamw_core.h"
#include "lib/exec/cpu/tile/isa_avx512.h"

namespace sk::cpu {

constinit const AdamwTable kAdamwAvx512 = make_adamw_table<Avx512>();

}  // namespace sk::cpu
