#include "tests/gpu/running.h"

#include <algorithm>

#include "tests/support/worlds.h"

namespace sk::cuda {
namespace {

constexpr std::byte kPoison{0xab};

template <typename Fn>
void each_operand(const Plan& plan, const Fn& fn) {
  for (const Buffer& buffer : plan.buffers)
    if (buffer.kind != BufferKind::kWorkspace) fn(buffer);
}

}  // namespace

Operands::Operands(const Device& device, const Plan& plan)
    : device_(device), plan_(plan), ranks_(plan.world_size(), RankOperands{}) {
  each_operand(plan, [&](const Buffer& buffer) {
    memory_.push_back(
        must(DeviceMemory::allocate(device.owner(), std::max<uint64_t>(1, buffer.bytes), "test")));
    ranks_[buffer.owner][buffer.operand] = pointer<void>(memory_.back().address());
  });
}

Status Operands::write(const std::vector<OperandBytes>& inputs) {
  Status status;
  size_t next = 0;
  each_operand(plan_, [&](const Buffer& buffer) {
    std::vector<std::byte> bytes(buffer.bytes, kPoison);
    const std::vector<std::byte>& given = inputs[buffer.owner][buffer.operand];
    if (buffer.kind != BufferKind::kOutput) std::copy(given.begin(), given.end(), bytes.begin());
    const abi::DevicePtr to = memory_[next++].address();
    if (status.ok()) status = device_.upload(to, bytes.data(), bytes.size());
  });
  return status;
}

Status Operands::read(std::vector<OperandBytes>& outputs) {
  Status status;
  outputs.assign(ranks_.size(), OperandBytes{});
  size_t next = 0;
  each_operand(plan_, [&](const Buffer& buffer) {
    std::vector<std::byte>& bytes = outputs[buffer.owner][buffer.operand];
    bytes.resize(buffer.bytes);
    const abi::DevicePtr from = memory_[next++].address();
    if (status.ok()) status = device_.download(bytes.data(), from, bytes.size());
  });
  return status;
}

Running::Running(const Plan& plan, const ProgramOptions& options) {
  const Device& device = Machine::get().device();
  epoch_ = must(Epoch::begin(device));
  program_ =
      must(GpuProgram::prepare(device, *epoch_, std::make_shared<const Plan>(plan), options));
  operands_ = std::make_unique<Operands>(device, program_->plan());
}

std::string Running::run(World& world, const Start& start) {
  const abi::Stream stream = Machine::get().stream();
  world.outputs.resize(world.inputs.size());
  for (uint32_t i = 0; i < world.inputs.size(); ++i) {
    Status status = operands_->write(world.inputs[i]);
    if (status.ok()) status = start ? start(i) : this->start(stream);
    if (status.ok()) status = program_->wait(stream);
    if (status.ok()) status = operands_->read(world.outputs[i]);
    if (!status.ok()) return status.message();
  }
  return testing_support::first_difference(program_->plan(), world);
}

std::string Running::run_random(std::mt19937_64& random, uint32_t runs) {
  World world = testing_support::random_world(program_->plan(), runs, random);
  return run(world);
}

}  // namespace sk::cuda
