// A plan of C = A B, of each rank's A and B summed over ranks, on the machine's stream.
#ifndef SK_BENCH_GPU_PRODUCT_PLAN_H_
#define SK_BENCH_GPU_PRODUCT_PLAN_H_

#include "bench/gpu/matrices.h"

namespace sk::cuda {

// A plan made ready, for benchmarks: what fails is thrown.
class PlanRun {
 public:
  PlanRun(const Machine& machine, const OpDesc& op, const Target& target,
          const ProgramOptions& options = {});

  void enqueue(const std::vector<RankOperands>& operands);
  GpuProgram& program() { return *program_; }
  const GpuProgram& program() const { return *program_; }
  Epoch& epoch() { return *epoch_; }

 private:
  const Machine& machine_;
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<GpuProgram> program_;
};

class ProductPlan : public PlanRun {
 public:
  // `workers`: of each rank. With ProgramOptions::pairs a worker has tiles of 256 rows.
  ProductPlan(const Machine& machine, const Shape& shape, uint32_t ranks, uint32_t workers,
              const ProgramOptions& options = {}, OfB of_b = OfB::kPacked);

  // Why pairs of `workers` would stand idle, or cannot multiply the shape; "": they would not.
  static std::string no_pairs(const Shape& shape, uint32_t workers);

  const std::string& note() const { return note_; }
  // Narrower than the bare kernel's blocks.
  bool is_narrow() const;

 private:
  std::string note_;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_PRODUCT_PLAN_H_
