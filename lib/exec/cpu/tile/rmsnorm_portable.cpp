#include "lib/exec/cpu/tile/isa_portable.h"
#include "lib/exec/cpu/tile/rmsnorm_core.h"

namespace sk::cpu {

constinit const RmsnormTable kRmsnormPortable = make_rmsnorm_table<Portable>();

}  // namespace sk::cpu
