#include "lib/exec/cpu/tile/isa_portable.h"
#include "lib/exec/cpu/tile/reduce_core.h"

namespace sk::cpu {

constinit const ReduceTable kReducePortable = make_reduce_table<Portable>();

}  // namespace sk::cpu
