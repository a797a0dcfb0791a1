#include "tests/devhost/kernels.h"

#include "cuda/exec/image.h"
#include "cuda/kernel/kernels.cu"
#include "tests/support/worlds.h"

namespace sk::devhost {

static_assert(sizeof(cuda::BlockShared<cuda::BoxOps<true>>) <= 227 << 10, "of an SM of sm_90");
static_assert(sizeof(cuda::BlockShared<cuda::GemmOps>) <= 163 << 10, "of an SM of sm_80");

Kernel kernel_for(const Plan& plan, bool boxes) {
  const bool is_gemm = cuda::needs_gemm(plan.ranks[0]), is_bf16 = plan.op.dtype == DType::kBF16;
  return [=](const cuda::LaunchArgs& args, bool have_boxes) {
    if (!is_gemm)
      sk_run_moves(args);
    else if (!boxes || !have_boxes)
      sk_run_gemms(args);
    else
      is_bf16 ? sk_run_boxes_bf16(args) : sk_run_boxes_f16(args);
  };
}

std::string run(const Plan& plan, World& world, const Options& options, bool boxes) {
  DeviceWorld device(plan, kernel_for(plan, boxes), options);
  const Status status = device.run(world);
  return status.ok() ? testing_support::first_difference(plan, world) : status.message();
}

Plan plan_gemm(const GemmCase& c) {
  OpDesc op;
  op.kind = OpKind::kAllreduceGemm;
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
  op.ldb = c.transpose_b ? c.k : c.n;
  op.ldc = c.n + c.pad_c;
  Target target;
  target.world_size = c.ranks;
  target.mapped = c.mapped;
  target.workers = c.workers;
  target.tile_m = c.tile_m;
  target.tile_n = c.tile_n;
  const uint64_t column = uint64_t(c.k) * dtype_bytes(c.dtype);
  target.packed_bytes = uint64_t(c.n) * align_up(column, 16);
  Result<Plan> plan = make_plan(op, target);
  return plan.ok() ? std::move(plan.value()) : Plan();
}

std::string describe(const GemmCase& c) {
  return fmt::format("{} x {} x {} of {} to {}, {} ranks, symmetric {}, mapped {}, turned {} {}",
                     c.m, c.n, c.k, dtype_name(c.dtype), dtype_name(c.out_dtype), c.ranks,
                     c.symmetric, c.mapped, c.transpose_a, c.transpose_b);
}

}  // namespace sk::devhost
