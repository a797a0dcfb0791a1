#include "lib/exec/cpu/tile/adamw.h"

#include "lib/exec/cpu/tile/adamw_table.h"

namespace sk::cpu {
namespace {

const AdamwTable& table_of(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa >= CpuIsa::kAvx512) return kAdamwAvx512;
  if (isa >= CpuIsa::kAvx2) return kAdamwAvx2;
#else
  static_cast<void>(isa);
#endif
  return kAdamwPortable;
}

// Of the rows of the table.
int row_of(DType dtype) { return int(dtype) - int(DType::kF32); }
static_assert(int(DType::kF64) == 2 && int(DType::kBF16) == 3 && int(DType::kF16) == 4);

}  // namespace

AdamwFn select_adamw(DType p, DType g, CpuIsa isa) {
  if (!is_float(p) || (g != p && g != DType::kF32)) return nullptr;
  return table_of(isa).step[row_of(p)][g == p ? 0 : 1];
}

}  // namespace sk::cpu
