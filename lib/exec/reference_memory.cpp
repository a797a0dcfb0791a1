#include "lib/exec/reference_memory.h"

#include <algorithm>

#include "lib/op/schema.h"
#include "lib/plan/check/operands.h"

namespace sk {

ReferenceMemory::ReferenceMemory(const Plan& plan, uint64_t seed)
    : plan_(plan),
      random_(seed),
      operands_(plan.target.world_size),
      workspace_(plan.target.world_size) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    Operand& operand = operands_[buffer.owner][buffer.operand];
    operand.exists = true;
    operand.kind = buffer.kind;
    operand.bytes.resize(buffer.bytes);
    operand.written.assign(buffer.bytes, false);
  }
  for (uint32_t rank = 0; rank < workspace_.size(); ++rank) {
    for (uint32_t area = 0; area < 3; ++area) {
      workspace_[rank][area].resize(workspace_bytes(plan, rank, area == 0 ? 1 : 2));
      poison(workspace_[rank][area]);
    }
  }
}

void ReferenceMemory::poison(std::vector<std::byte>& bytes) {
  for (std::byte& byte : bytes) byte = std::byte(random_());
}

std::byte* ReferenceMemory::address(uint32_t buffer, uint32_t run) {
  const Buffer& b = plan_.buffers[buffer];
  if (b.kind != BufferKind::kWorkspace) return operands_[b.owner][b.operand].bytes.data();
  return workspace_[b.owner][b.generations == 1 ? 0 : 1 + run % 2].data() + b.offset;
}

void ReferenceMemory::begin(uint32_t rank, const OperandBytes& inputs) {
  for (uint32_t i = 0; i < OpDesc::kOperandsMax; ++i) {
    Operand& operand = operands_[rank][i];
    poison(operand.bytes);
    std::fill(operand.written.begin(), operand.written.end(), false);
    std::copy_n(inputs[i].begin(), std::min(inputs[i].size(), operand.bytes.size()),
                operand.bytes.begin());
  }
}

uint64_t ReferenceMemory::defined_bytes(uint32_t rank, uint32_t home) const {
  const Operands operands = check::operands_of(plan_);
  const std::span<const OperandSchema> schemas = plan_.op.schema().operands;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < schemas.size(); ++i) {
    if (schemas[i].role != Role::kOut || operands.home(i) != home) continue;
    const Extent extent = operands.extent(i);
    bytes += extent.rows > 1 ? extent.rows * extent.row_bytes : operands.window(i, rank).count;
  }
  return bytes;
}

Status ReferenceMemory::end(uint32_t rank, OperandBytes& outputs) {
  for (uint32_t i = 0; i < OpDesc::kOperandsMax; ++i) {
    Operand& operand = operands_[rank][i];
    if (operand.exists && operand.kind == BufferKind::kOutput) {
      const auto written = std::count(operand.written.begin(), operand.written.end(), true);
      if (uint64_t(written) != defined_bytes(rank, i)) {
        return error(SK_ERR_INTERNAL, "rank {} ends with {} bytes of output written, not {}", rank,
                     written, defined_bytes(rank, i));
      }
    }
    outputs[i] = operand.bytes;
    poison(operand.bytes);
  }
  return Status();
}

Status ReferenceMemory::count_write(const Region& region, uint32_t buffer) {
  const Buffer& b = plan_.buffers[buffer];
  if (b.kind == BufferKind::kWorkspace) return Status();
  std::vector<bool>& written = operands_[b.owner][b.operand].written;
  for (uint64_t row = 0; row < region.rows; ++row) {
    for (uint64_t i = 0; i < region.row_bytes; ++i) {
      const uint64_t at = region.offset + row * region.pitch + i;
      if (written[at]) {
        return error(SK_ERR_INTERNAL, "byte {} of buffer {} is written twice in a run", at, buffer);
      }
      written[at] = true;
    }
  }
  return Status();
}

}  // namespace sk
