#include "lib/exec/cpu/tile/isa_avx512.h"
#include "lib/exec/cpu/tile/reduce_core.h"

namespace sk::cpu {

constinit const ReduceTable kReduceAvx512 = make_reduce_table<Avx512>();

}  // namespace sk::cpu
