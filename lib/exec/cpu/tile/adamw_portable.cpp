#include "lib/exec/cpu/tile/adamw_core.h"
#include "lib/exec/cpu/tile/isa_portable.h"

namespace sk::cpu {

constinit const AdamwTable kAdamwPortable = make_adamw_table<Portable>();

}  // namespace sk::cpu
