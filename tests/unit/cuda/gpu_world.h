// A plan on a fake GPU: device, epoch, program, and the callers' memory of all ranks.
#ifndef SK_TESTS_UNIT_CUDA_GPU_WORLD_H_
#define SK_TESTS_UNIT_CUDA_GPU_WORLD_H_

#include <memory>
#include <string>
#include <vector>

#include "cuda/exec/program.h"
#include "lib/exec/reference.h"
#include "tests/unit/cuda/fake_driver.h"

namespace sk::cuda {

inline constexpr int64_t kPatientNs = 60'000'000'000;

// Callers' memory for one run in flight.
class GpuOperands {
 public:
  GpuOperands(FakeDriver& fake, const Plan& plan, int gpu = 0);
  ~GpuOperands();
  GpuOperands(const GpuOperands&) = delete;
  GpuOperands& operator=(const GpuOperands&) = delete;

  std::vector<RankOperands>& ranks() { return ranks_; }
  // What `begin` and `end` of a run do, for all ranks.
  void write(const std::vector<OperandBytes>& inputs);
  std::vector<OperandBytes> read();

 private:
  FakeDriver& fake_;
  const Plan& plan_;
  std::vector<RankOperands> ranks_;
};

// Opens things that must open.
std::unique_ptr<Device> open_device(const FakeDriver& fake, int ordinal = 0);
std::unique_ptr<Epoch> begin_epoch(const Device& device);
std::unique_ptr<GpuProgram> prepare(const Device& device, Epoch& epoch, const Plan& plan,
                                    const ProgramOptions& options = {});

}  // namespace sk::cuda

#endif  // SK_TESTS_UNIT_CUDA_GPU_WORLD_H_
