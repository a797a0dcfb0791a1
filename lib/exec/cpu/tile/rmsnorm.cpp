#include "lib/exec/cpu/tile/rmsnorm.h"

#include "lib/exec/cpu/tile/rmsnorm_table.h"

namespace sk::cpu {
namespace {

const RmsnormTable& table_of(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa >= CpuIsa::kAvx512) return kRmsnormAvx512;
  if (isa >= CpuIsa::kAvx2) return kRmsnormAvx2;
#else
  static_cast<void>(isa);
#endif
  return kRmsnormPortable;
}

// Of the rows of the table.
int row_of(DType dtype) { return int(dtype) - int(DType::kF32); }
static_assert(int(DType::kF64) == 2 && int(DType::kBF16) == 3 && int(DType::kF16) == 4);

}  // namespace

RmsnormFn select_rmsnorm(DType dtype, RmsnormWeight weight, CpuIsa isa) {
  return is_float(dtype) ? table_of(isa).forward[row_of(dtype)][int(weight)] : nullptr;
}
RmsnormBackwardFn select_rmsnorm_backward(DType dtype, RmsnormWeight weight, CpuIsa isa) {
  return is_float(dtype) ? table_of(isa).backward[row_of(dtype)][int(weight)] : nullptr;
}

}  // namespace sk::cpu
