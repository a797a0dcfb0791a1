// The GPU of this machine, or where there is none a fake one whose kernels run on the CPU: so the
// tests that silicon is to pass are themselves tried everywhere.
#ifndef SK_TESTS_GPU_MACHINE_H_
#define SK_TESTS_GPU_MACHINE_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/exec/program.h"
#include "lib/exec/reference.h"

namespace sk::cuda {

class Machine {
 public:
  static Machine& get();

  bool is_real() const { return is_real_; }
  // Why it is not: the sentence of the driver's loader.
  const std::string& reason() const { return reason_; }
  const Device& device() const { return *device_; }
  // Of `workers` blocks in all, each rank's share.
  uint32_t workers(uint32_t ranks) const;
  uint64_t free_bytes() const;

 private:
  Machine();
  bool is_real_ = false;
  std::string reason_;
  std::shared_ptr<void> fake_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Device> device_;
};

// Callers' memory of all ranks for one run in flight.
class Operands {
 public:
  Operands(const Device& device, const Plan& plan);

  std::vector<RankOperands>& ranks() { return ranks_; }
  // Poisons all of it, then writes the inputs.
  Status write(const std::vector<OperandBytes>& inputs);
  Status read(std::vector<OperandBytes>& outputs);

 private:
  const Device& device_;
  const Plan& plan_;
  std::vector<DeviceMemory> memory_;
  std::vector<RankOperands> ranks_;
};

// A plan and what it needs to be run again and again.
class Running {
 public:
  static constexpr int64_t kPatientNs = 60'000'000'000;

  explicit Running(const Plan& plan, const ProgramOptions& options = {});

  GpuProgram& program() { return *program_; }
  Epoch& epoch() { return *epoch_; }
  Operands& operands() { return *operands_; }
  // Runs on each of the world's inputs: "" or a sentence.
  std::string run(World& world);
  std::string run(const Plan& plan, std::mt19937_64& random, uint32_t runs);

 private:
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<GpuProgram> program_;
  std::unique_ptr<Operands> operands_;
};

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_MACHINE_H_
