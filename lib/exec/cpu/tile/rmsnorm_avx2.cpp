#include "lib/exec/cpu/tile/bf16_in_lanes.h"
#include "lib/exec/cpu/tile/isa_avx2.h"
#include "lib/exec/cpu/tile/rmsnorm_core.h"

namespace sk::cpu {

constinit const RmsnormTable kRmsnormAvx2 =
    make_rmsnorm_table<Avx2, Bf16InLanes<Avx2>, F32InLanes<Avx2>>();

}  // namespace sk::cpu
