#include "tests/support/gemm_cases.h"

#include <fmt/format.h>

#include "lib/algo/planner.h"
#include "tests/support/op_words.h"

namespace sk::testing_support {

Plan plan_gemm(const GemmCase& c) {
  TextOp op;
  op.kind = c.gathers ? OpKind::kAllgatherGemm : OpKind::kAllreduceGemm;
  op.dtype = c.dtype;
  op.out_dtype = c.out_dtype;
  op.m = c.m;
  op.n = c.n;
  op.k = c.k;
  op.transpose_a = c.transpose_a;
  op.pack_b = true;
  op.transpose_b = c.transpose_b;
  op.symmetric_in = op.symmetric_out = c.symmetric;
  op.lda = (c.transpose_a ? c.m : c.k) + c.pad_a;
  op.ldb = (c.transpose_b ? c.k : c.n) + c.pad_b;
  op.ldc = c.n + c.pad_c;
  Target target;
  target.world_size = c.ranks;
  target.mapped = c.mapped;
  target.workers = c.workers;
  target.tile_m = c.tile_m;
  target.tile_n = c.tile_n;
  const uint64_t column = uint64_t(c.k) * dtype_bytes(c.dtype);
  target.packed_bytes = uint64_t(c.n) * align_up(column, 16);
  if (c.packed_by_all) target.packed_pitch = align_up(column, 16);
  target.raw_b = c.raw_b;
  Result<Plan> plan = make_plan(op_desc(op), target);
  return plan.ok() ? std::move(plan.value()) : Plan();
}

std::string describe(const GemmCase& c) {
  return fmt::format(
      "{} x {} x {} of {} to {}, {} ranks, symmetric {}, mapped {}, turned {} {}{}{}", c.m, c.n,
      c.k, dtype_name(c.dtype), dtype_name(c.out_dtype), c.ranks, c.symmetric, c.mapped,
      c.transpose_a, c.transpose_b, c.raw_b ? ", raw" : "", c.gathers ? ", gathered" : "");
}

}  // namespace sk::testing_support
