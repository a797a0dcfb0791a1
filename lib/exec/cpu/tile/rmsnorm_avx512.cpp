#include "lib/exec/cpu/tile/isa_avx512.h"
#include "lib/exec/cpu/tile/rmsnorm_core.h"

namespace sk::cpu {

constinit const RmsnormTable kRmsnormAvx512 = make_rmsnorm_table<Avx512>();

}  // namespace sk::cpu
