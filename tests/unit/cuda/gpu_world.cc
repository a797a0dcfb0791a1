#include "tests/unit/cuda/gpu_world.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sk::cuda {
namespace {

template <typename Fn>
void each_operand(const Plan& plan, const Fn& fn) {
  for (const Buffer& buffer : plan.buffers)
    if (buffer.kind != BufferKind::kWorkspace) fn(buffer);
}

template <typename T>
std::unique_ptr<T> must(Result<std::unique_ptr<T>> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(result).value() : nullptr;
}

}  // namespace

GpuOperands::GpuOperands(FakeDriver& fake, const Plan& plan, int gpu)
    : fake_(fake), plan_(plan), ranks_(plan.world_size(), RankOperands{}) {
  each_operand(plan, [&](const Buffer& buffer) {
    ranks_[buffer.owner][buffer.operand] = fake.allocate(gpu, buffer.bytes + 1);
  });
}

GpuOperands::~GpuOperands() {
  each_operand(plan_,
               [&](const Buffer& buffer) { fake_.free(ranks_[buffer.owner][buffer.operand]); });
}

void GpuOperands::write(const std::vector<OperandBytes>& inputs) {
  each_operand(plan_, [&](const Buffer& buffer) {
    void* at = ranks_[buffer.owner][buffer.operand];
    std::memset(at, 0xab, buffer.bytes);
    const std::vector<std::byte>& bytes = inputs[buffer.owner][buffer.operand];
    if (buffer.kind != BufferKind::kOutput && !bytes.empty())
      std::memcpy(at, bytes.data(), bytes.size());
  });
}

std::vector<OperandBytes> GpuOperands::read() {
  std::vector<OperandBytes> outputs(ranks_.size());
  each_operand(plan_, [&](const Buffer& buffer) {
    auto* at = static_cast<std::byte*>(ranks_[buffer.owner][buffer.operand]);
    outputs[buffer.owner][buffer.operand].assign(at, at + buffer.bytes);
    std::memset(at, 0x5a, buffer.bytes);
  });
  return outputs;
}

std::unique_ptr<Device> open_device(const FakeDriver& fake, int ordinal) {
  return must(Device::open(fake.runtime(), ordinal));
}
std::unique_ptr<Epoch> begin_epoch(const Device& device) { return must(Epoch::begin(device)); }
std::unique_ptr<GpuProgram> prepare(const Device& device, Epoch& epoch, const Plan& plan,
                                    const ProgramOptions& options) {
  return must(GpuProgram::prepare(device, epoch, std::make_shared<const Plan>(plan), options));
}

}  // namespace sk::cuda
