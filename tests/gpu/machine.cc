#include "tests/gpu/machine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/worlds.h"
#include "tests/unit/cuda/fake_driver.h"

namespace sk::cuda {
namespace {

constexpr uint32_t kFakeMultiprocessors = 8;

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

std::vector<std::byte> poison(uint64_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{0xab});
}

}  // namespace

Machine& Machine::get() {
  static Machine machine;
  return machine;
}

Machine::Machine() {
  Result<Runtime> real = load_runtime();
  is_real_ = real.ok();
  if (is_real_) {
    runtime_ = std::make_unique<Runtime>(std::move(real).value());
  } else {
    reason_ = real.status().message();
    auto fake = std::make_shared<FakeDriver>();
    fake->gpus[0].multiprocessors = kFakeMultiprocessors;
    runtime_ = std::make_unique<Runtime>(fake->runtime());
    fake_ = fake;
  }
  device_ = must(Device::open(*runtime_, 0));
}

uint32_t Machine::workers(uint32_t ranks) const {
  return std::max(1u, device_->multiprocessors() / ranks);
}

uint64_t Machine::free_bytes() const {
  const Current current(device_->driver(), device_->context());
  size_t free = 0, total = 0;
  if (device_->driver().cuMemGetInfo(&free, &total) != abi::kSuccess) return 0;
  return free;
}

Operands::Operands(const Device& device, const Plan& plan)
    : device_(device), plan_(plan), ranks_(plan.world_size(), RankOperands{}) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    const Current current(device.driver(), device.context());
    memory_.push_back(
        must(DeviceMemory::allocate(device.owner(), std::max<uint64_t>(1, buffer.bytes), "test")));
    ranks_[buffer.owner][buffer.operand] = pointer<void>(memory_.back().address());
  }
}

Status Operands::write(const std::vector<OperandBytes>& inputs) {
  const Current current(device_.driver(), device_.context());
  size_t next = 0;
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    std::vector<std::byte> bytes = poison(buffer.bytes);
    const std::vector<std::byte>& given = inputs[buffer.owner][buffer.operand];
    if (buffer.kind != BufferKind::kOutput) std::copy(given.begin(), given.end(), bytes.begin());
    SK_RETURN_IF_ERROR(device_.upload(memory_[next++].address(), bytes.data(), bytes.size()));
  }
  return {};
}

Status Operands::read(std::vector<OperandBytes>& outputs) {
  const Current current(device_.driver(), device_.context());
  outputs.assign(ranks_.size(), OperandBytes{});
  size_t next = 0;
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    std::vector<std::byte>& bytes = outputs[buffer.owner][buffer.operand];
    bytes.resize(buffer.bytes);
    SK_RETURN_IF_ERROR(device_.download(bytes.data(), memory_[next++].address(), bytes.size()));
  }
  return {};
}

Running::Running(const Plan& plan, const ProgramOptions& options) {
  const Device& device = Machine::get().device();
  epoch_ = must(Epoch::begin(device));
  program_ =
      must(GpuProgram::prepare(device, *epoch_, std::make_shared<const Plan>(plan), options));
  operands_ = std::make_unique<Operands>(device, program_->plan());
}

std::string Running::run(World& world) {
  world.outputs.resize(world.inputs.size());
  for (size_t i = 0; i < world.inputs.size(); ++i) {
    Status status = operands_->write(world.inputs[i]);
    if (status.ok()) status = program_->run(nullptr, operands_->ranks(), kPatientNs);
    if (status.ok()) status = program_->wait(nullptr);
    if (status.ok()) status = operands_->read(world.outputs[i]);
    if (!status.ok()) return status.message();
  }
  return testing_support::first_difference(program_->plan(), world);
}

std::string Running::run(const Plan& plan, std::mt19937_64& random, uint32_t runs) {
  World world = testing_support::random_world(plan, runs, random);
  return run(world);
}

}  // namespace sk::cuda
