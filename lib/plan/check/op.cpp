#include "lib/base/world.h"
#include "lib/op/judge.h"
#include "lib/op/schema.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"

namespace sk::check {
namespace {

// Of one rank: by the operand whose memory it is, 1 + the operand that a buffer names it by.
using Homes = std::array<uint8_t, OpDesc::kOperandsMax>;

Status check_operand(const Plan& plan, const Operands& operands, size_t id,
                     std::vector<Homes>& seen) {
  const Buffer& buffer = plan.buffers[id];
  const Extent extent = operands.extent(buffer.operand);
  const Schema& schema = plan.op.schema();
  const bool used = buffer.operand < schema.operands.size();
  if (!used || extent.bytes != buffer.bytes) {
    return refuse('0', "buffer {}, operand {} of {}, has {} bytes, not {}", id, buffer.operand,
                  describe(plan.op), buffer.bytes, used ? extent.bytes : 0);
  }
  const uint32_t home = operands.home(buffer.operand);
  const BufferKind kind = operands.shared(home)                                ? BufferKind::kInOut
                          : schema.operands[buffer.operand].role == Role::kOut ? BufferKind::kOutput
                                                                               : BufferKind::kInput;
  if (buffer.kind != kind) return refuse('0', "buffer {} has the wrong kind for its operand", id);
  if (!operands.passed(buffer.operand)) {
    return refuse('0', "buffer {} is of {}, which lies in {} and is not passed by itself", id,
                  operand_name(plan.op, buffer.operand), operand_name(plan.op, home));
  }
  // Several may be one operand's, but only one operand's of those that share memory.
  uint8_t& owned = seen[buffer.owner][home];
  if (owned != 0 && owned != buffer.operand + 1) {
    return refuse('0', "buffer {}: in place, rank {} has one operand, not two", id, buffer.owner);
  }
  owned = uint8_t(buffer.operand + 1);
  return Status();
}

// A host goes by its least rank, and there are two at least.
Status check_hosts(const Target& target) {
  const std::vector<uint32_t>& host_of = target.host_of;
  if (host_of.empty()) return Status();
  if (host_of.size() != target.world_size) {
    return refuse('0', "the hosts of {} ranks are given, in a world of {}", host_of.size(),
                  target.world_size);
  }
  bool several = false;
  for (uint32_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] > rank || host_of[host_of[rank]] != host_of[rank]) {
      return refuse('0', "rank {} has host {}, which is not the least rank of a host", rank,
                    host_of[rank]);
    }
    several |= host_of[rank] != 0;
  }
  if (!several) return refuse('0', "hosts are given, and all ranks share one");
  return Status();
}

}  // namespace

Status check_op(const Plan& plan) {
  const uint32_t ranks = plan.target.world_size;
  if (ranks < 1 || ranks > uint32_t{kWorldSizeMax}) {
    return refuse('h', "a world of {} ranks, allowed are 1 to {}", ranks, kWorldSizeMax);
  }
  SK_RETURN_IF_ERROR(check_hosts(plan.target));
  const std::string mistake = mistake_in(plan.op, ranks);
  if (!mistake.empty()) return refuse('0', "{}", mistake);
  const Operands operands = operands_of(plan);
  for (uint32_t operand = 0; operand < plan.op.schema().operands.size(); ++operand) {
    const Extent extent = operands.extent(operand);
    if (extent.overflow || extent.bytes >= uint64_t(1) << 48) {
      return refuse('d', "{} of {} is larger than 2^48 bytes", operand_name(plan.op, operand),
                    describe(plan.op));
    }
  }
  std::vector<Homes> seen(ranks);
  for (size_t id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.kind == BufferKind::kWorkspace) continue;
    if (buffer.owner >= ranks) return refuse('0', "buffer {} has owner {}", id, buffer.owner);
    SK_RETURN_IF_ERROR(check_operand(plan, operands, id, seen));
  }
  return Status();
}

}  // namespace sk::check
