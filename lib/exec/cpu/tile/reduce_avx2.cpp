#include "lib/exec/cpu/tile/isa_avx2.h"
#include "lib/exec/cpu/tile/reduce_core.h"

namespace sk::cpu {

constinit const ReduceTable kReduceAvx2 = make_reduce_table<Avx2>();

}  // namespace sk::cpu
