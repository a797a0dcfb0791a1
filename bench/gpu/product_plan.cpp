#include "bench/gpu/product_plan.h"

#include <fmt/format.h>

#include "cuda/exec/cut.h"
#include "cuda/exec/kernels.h"
#include "lib/algo/planner.h"
#include "lib/op/ops/allreduce_gemm.h"

namespace sk::cuda {
namespace {

constexpr uint32_t kPairRows = kBoxRowsA * kPairBlocks;

OpDesc product_op(const Shape& shape, OfB of_b) {
  GemmCall op;
  op.dtype = op.out_dtype = DType::kBF16;
  op.m = shape.m;
  op.n = shape.n;
  op.k = shape.k;
  op.lda = shape.k;
  op.ldc = shape.n;
  op.symmetric_out = true;
  op.pack_b = of_b != OfB::kPacked;
  op.transpose_b = of_b == OfB::kNK;
  if (op.pack_b) op.ldb = int64_t(of_b == OfB::kNK ? shape.b_pitch() : shape.kn_pitch()) / 2;
  return describe(ops::kAllreduceGemm, op);
}

int64_t tile_count(const Shape& shape, uint32_t tile_m, uint32_t tile_n) {
  return (shape.m + tile_m - 1) / tile_m * ((shape.n + tile_n - 1) / tile_n);
}

Target product_target(const Shape& shape, uint32_t ranks, uint32_t workers, bool pairs, OfB of_b) {
  Target target{.world_size = ranks, .workers = workers};
  target.tile_m = pairs ? kPairRows : kBoxRowsA;
  const bool few = tile_count(shape, target.tile_m, kBoxRowsB) < int64_t(ranks) * workers;
  target.tile_n = few && !pairs ? kNarrowBoxRowsB : kBoxRowsB;
  target.band_rows = band_rows_of(target);
  target.packed_bytes = shape.b_bytes();
  target.raw_b = of_b != OfB::kPacked;
  return target;
}

}  // namespace

PlanRun::PlanRun(const Machine& machine, const OpDesc& op, const Target& target,
                 const ProgramOptions& options)
    : machine_(machine), epoch_(must(Epoch::begin(machine.device()))) {
  program_ =
      must(GpuProgram::prepare(machine.device(), *epoch_,
                               std::make_shared<const Plan>(must(make_plan(op, target))), options));
}

void PlanRun::enqueue(const std::vector<RankOperands>& operands) {
  must(program_->run(machine_.stream(), operands, machine_.patience_ns()));
}

ProductPlan::ProductPlan(const Machine& machine, const Shape& shape, uint32_t ranks,
                         uint32_t workers, const ProgramOptions& options, OfB of_b)
    : PlanRun(machine, product_op(shape, of_b),
              product_target(shape, ranks, workers, options.pairs, of_b), options),
      note_(fmt::format("{} ranks of up to {} workers{}, tiles of {} x {}", ranks, workers,
                        options.pairs ? " of two blocks" : "", program().plan().target.tile_m,
                        program().plan().target.tile_n)) {}

std::string ProductPlan::no_pairs(const Shape& shape, uint32_t workers) {
  if (workers == 0) return "this GPU has no kernel for pairs of blocks";
  if (shape.a_pitch() % 16 != 0) return "rows of A are no multiple of 16 bytes apart";
  const int64_t tiles = tile_count(shape, kPairRows, kBoxRowsB);
  if (tiles < int64_t(workers))
    return fmt::format("{} tiles of {} x {} for {} pairs", tiles, kPairRows, kBoxRowsB, workers);
  return "";
}

bool ProductPlan::is_narrow() const { return !needs_of(program().plan()).wide_tiles; }

}  // namespace sk::cuda
