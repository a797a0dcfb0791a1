#include "bench/gpu/product_plan.h"

#include <fmt/format.h>

#include "cuda/exec/image.h"
#include "lib/algo/planner.h"

namespace sk::cuda {
namespace {

constexpr int64_t kTimeoutNs = 20'000'000'000;

OpDesc product_op(const Shape& shape) {
  OpDesc op;
  op.kind = OpKind::kAllreduceGemm;
  op.dtype = op.out_dtype = DType::kBF16;
  op.m = shape.m;
  op.n = shape.n;
  op.k = shape.k;
  op.lda = shape.k;
  op.ldc = shape.n;
  op.symmetric_out = true;
  return op;
}

Target product_target(const Shape& shape, uint32_t ranks, uint32_t workers) {
  Target target{.world_size = ranks, .workers = workers};
  target.tile_m = kBoxRowsA;
  const int64_t wide =
      (shape.m + kBoxRowsA - 1) / kBoxRowsA * ((shape.n + kBoxRowsB - 1) / kBoxRowsB);
  target.tile_n = wide < int64_t(ranks) * workers ? kNarrowBoxRowsB : kBoxRowsB;
  target.packed_bytes = shape.b_bytes();
  return target;
}

}  // namespace

PlanRun::PlanRun(const Machine& machine, const OpDesc& op, const Target& target, bool trace)
    : machine_(machine), epoch_(must(Epoch::begin(machine.device()))) {
  program_ = must(GpuProgram::prepare(machine.device(), *epoch_,
                                      std::make_shared<const Plan>(must(make_plan(op, target))),
                                      {.trace = trace}));
}

void PlanRun::enqueue(const std::vector<RankOperands>& operands) {
  must(program_->run(machine_.stream(), operands, kTimeoutNs));
}

ProductPlan::ProductPlan(const Machine& machine, const Shape& shape, uint32_t ranks,
                         uint32_t workers, bool trace)
    : PlanRun(machine, product_op(shape), product_target(shape, ranks, workers), trace),
      note_(fmt::format("{} ranks of up to {} workers, tiles of {} columns", ranks, workers,
                        program().plan().target.tile_n)) {}

bool ProductPlan::is_narrow() const { return box_rows_b(program().plan()) != kBoxRowsB; }

}  // namespace sk::cuda
