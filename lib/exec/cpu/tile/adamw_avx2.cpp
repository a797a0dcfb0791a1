#include "lib/exec/cpu/tile/adamw_core.h"
#include "lib/exec/cpu/tile/isa_avx2.h"

namespace sk::cpu {

constinit const AdamwTable kAdamwAvx2 = make_adamw_table<Avx2>();

}  // namespace sk::cpu
