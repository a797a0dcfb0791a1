#include "lib/base/world.h"
#include "lib/op/judge.h"
#include "lib/op/schema.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"

namespace sk::check {
namespace {

Status check_operand(const Plan& plan, const Operands& operands, size_t id,
                     std::vector<uint8_t>& seen) {
  const Buffer& buffer = plan.buffers[id];
  const Extent extent = operands.extent(buffer.operand);
  const Schema* schema = schema_of(plan.op.kind);
  const bool used = buffer.operand < schema->operands.size();
  if (!used || extent.bytes != buffer.bytes) {
    return refuse('0', "buffer {}, operand {} of {}, has {} bytes, not {}", id, buffer.operand,
                  describe(plan.op), buffer.bytes, used ? extent.bytes : 0);
  }
  const BufferKind kind = plan.op.in_place ? BufferKind::kInOut
                          : schema->operands[buffer.operand].role == Role::kOut
                              ? BufferKind::kOutput
                              : BufferKind::kInput;
  if (buffer.kind != kind) return refuse('0', "buffer {} has the wrong kind for its operand", id);
  uint8_t& owned = seen[buffer.owner];
  owned |= uint8_t(1u << buffer.operand);
  if (plan.op.in_place && (owned & 3) == 3) {
    return refuse('0', "buffer {}: in place, rank {} has one operand, not two", id, buffer.owner);
  }
  return Status();
}

}  // namespace

Status check_op(const Plan& plan) {
  const uint32_t ranks = plan.target.world_size;
  if (ranks < 1 || ranks > uint32_t{kWorldSizeMax}) {
    return refuse('h', "a world of {} ranks, allowed are 1 to {}", ranks, kWorldSizeMax);
  }
  const std::string mistake = mistake_in(plan.op, ranks);
  if (!mistake.empty()) return refuse('0', "{}", mistake);
  const Operands operands = operands_of(plan);
  for (uint32_t operand = 0; operand < schema_of(plan.op.kind)->operands.size(); ++operand) {
    const Extent extent = operands.extent(operand);
    if (extent.overflow || extent.bytes >= uint64_t(1) << 48) {
      return refuse('d', "operand {} of {} is larger than 2^48 bytes", operand, describe(plan.op));
    }
  }
  std::vector<uint8_t> seen(ranks, 0);
  for (size_t id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.kind == BufferKind::kWorkspace) continue;
    if (buffer.owner >= ranks) return refuse('0', "buffer {} has owner {}", id, buffer.owner);
    SK_RETURN_IF_ERROR(check_operand(plan, operands, id, seen));
  }
  return Status();
}

}  // namespace sk::check
