#include "lib/exec/cpu/tile/reduce.h"

#include "lib/exec/cpu/tile/reduce_table.h"

namespace sk::cpu {
namespace {

const ReduceTable& table_of(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa >= CpuIsa::kAvx512) return kReduceAvx512;
  if (isa >= CpuIsa::kAvx2) return kReduceAvx2;
#else
  static_cast<void>(isa);
#endif
  return kReducePortable;
}

// A load and two compares: cpu_isa() itself is a guarded static.
const ReduceTable& table() {
  static const ReduceTable& chosen = table_of(cpu_isa());
  return chosen;
}

ReduceFn select(const ReduceTable& table, DType dtype, RedOp op, int in_count, int out_count) {
  const int d = int(dtype) - 1;
  if (op == RedOp::kSum && in_count == 2) {
    if (out_count == 1) return table.sum_2_to_1[d];
    if (out_count == 2) return table.sum_2_to_2[d];
  }
  return table.any[d][int(op) - 1];
}

ReduceFn select_mixed(const ReduceTable& table, DType in, DType out, RedOp op) {
  const int o = int(op) - 1;
  if (in == DType::kF32 && out == DType::kBF16) return table.mixed[0][o];
  if (in == DType::kF32 && out == DType::kF16) return table.mixed[1][o];
  if (in == DType::kF64 && out == DType::kF32) return table.mixed[2][o];
  if (in == DType::kBF16 && out == DType::kF32) return table.mixed[3][o];
  if (in == DType::kF16 && out == DType::kF32) return table.mixed[4][o];
  return nullptr;
}

void strided(const ReduceTable& table, const ReduceStridedArgs& a) {
  const ReduceFn fn = a.in_dtype == a.out_dtype
                          ? select(table, a.in_dtype, a.op, a.in_count, a.out_count)
                          : select_mixed(table, a.in_dtype, a.out_dtype, a.op);
  if (a.rows <= 1) {
    if (a.rows == 1) fn(a.in, a.in_count, a.out, a.out_count, a.row_elements, a.hint);
    return;
  }
  const void* in[kReduceStridedPointersMax];
  void* out[kReduceStridedPointersMax];
  for (size_t row = 0; row < a.rows; ++row) {
    for (int r = 0; r < a.in_count; ++r) {
      in[r] = static_cast<const char*>(a.in[r]) + int64_t(row) * a.in_pitch[r];
    }
    for (int j = 0; j < a.out_count; ++j) {
      out[j] = static_cast<char*>(a.out[j]) + int64_t(row) * a.out_pitch[j];
    }
    fn(in, a.in_count, out, a.out_count, a.row_elements, a.hint);
  }
}

}  // namespace

ReduceFn select_reduce(DType dtype, RedOp op, int in_count, int out_count, CpuIsa isa) {
  if (in_count < 1 || out_count < 1) return nullptr;
  return select(table_of(isa), dtype, op, in_count, out_count);
}

ReduceFn select_reduce(DType dtype, RedOp op, int in_count, int out_count) {
  return select_reduce(dtype, op, in_count, out_count, cpu_isa());
}

void choose_reductions() { (void)table(); }

void reduce(DType dtype, RedOp op, const void* const* in, int in_count, void* const* out,
            int out_count, size_t elements, StoreHint hint) {
  select(table(), dtype, op, in_count, out_count)(in, in_count, out, out_count, elements, hint);
}

void reduce_strided(const ReduceStridedArgs& args) { strided(table(), args); }
void reduce_strided(const ReduceStridedArgs& args, CpuIsa isa) { strided(table_of(isa), args); }

}  // namespace sk::cpu
