// A plan on the machine's GPU with the callers' memory of all ranks, run again and again.
#ifndef SK_TESTS_GPU_RUNNING_H_
#define SK_TESTS_GPU_RUNNING_H_

#include <random>

#include "lib/exec/reference.h"
#include "tests/gpu/machine.h"

namespace sk::cuda {

// Callers' memory of all ranks for one run in flight.
class Operands {
 public:
  Operands(const Device& device, const Plan& plan);

  const std::vector<RankOperands>& ranks() const { return ranks_; }
  // Poisons all of it, then writes the inputs.
  Status write(const std::vector<OperandBytes>& inputs);
  Status read(std::vector<OperandBytes>& outputs);

 private:
  const Device& device_;
  const Plan& plan_;
  std::vector<DeviceMemory> memory_;
  std::vector<RankOperands> ranks_;
};

class Running {
 public:
  explicit Running(const Plan& plan, const ProgramOptions& options = {});

  GpuProgram& program() { return *program_; }
  Epoch& epoch() { return *epoch_; }
  Operands& operands() { return *operands_; }
  Status start(abi::Stream stream) {
    return program_->run(stream, operands_->ranks(), Machine::get().patience_ns());
  }
  // Runs on each of the world's inputs, by `start` (null: a plain run): "" or a sentence.
  using Start = std::function<Status(uint32_t run)>;
  std::string run(World& world, const Start& start = nullptr);
  std::string run_random(std::mt19937_64& random, uint32_t runs);

 private:
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<GpuProgram> program_;
  std::unique_ptr<Operands> operands_;
};

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_RUNNING_H_
