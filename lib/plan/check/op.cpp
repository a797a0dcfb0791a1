#include <string_view>

#include "lib/base/world.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"

namespace sk::check {
namespace {

constexpr int64_t kElementsMax = int64_t(1) << 46;

bool is_gemm(const OpDesc& op) { return op.kind == OpKind::kAllreduceGemm; }
bool moves_vectors(const OpDesc& op) {
  return op.kind >= OpKind::kAllreduce && op.kind <= OpKind::kSendRecv;
}

Status check_gemm(const OpDesc& op) {
  if (!is_float(op.dtype) || (op.out_dtype != op.dtype && op.out_dtype != DType::kF32)) {
    return refuse('0', "no GEMM of {} into {}", dtype_name(op.dtype), dtype_name(op.out_dtype));
  }
  if (op.in_place) return refuse('0', "a GEMM is never in place");
  if (op.lda < (op.transpose_a ? op.m : op.k) || op.ldc < op.n ||
      (op.pack_b && op.ldb < (op.transpose_b ? op.k : op.n))) {
    return refuse('0', "leading strides {}, {}, {} are shorter than the rows of {} x {} x {}",
                  op.lda, op.ldb, op.ldc, op.m, op.n, op.k);
  }
  if (!op.pack_b && (op.ldb != 0 || op.transpose_b)) {
    return refuse('0', "ldb and transpose_b are for a B that is packed in the run");
  }
  return Status();
}

Status check_descriptor(const OpDesc& op, uint32_t ranks) {
  if (op_kind_name(op.kind) == std::string_view("?") || !is_dtype(int32_t(op.dtype)) ||
      !is_dtype(int32_t(op.out_dtype)) || !is_redop(int32_t(op.redop))) {
    return refuse('0', "unknown operation {}, dtype {}, out_dtype {} or redop {}", int(op.kind),
                  int(op.dtype), int(op.out_dtype), int(op.redop));
  }
  for (const int64_t value : {op.count, op.m, op.n, op.k, op.lda, op.ldb, op.ldc}) {
    if (value < 0 || value > kElementsMax) {
      return refuse('0', "the op has a size of {}, allowed are 0 to 2^46", value);
    }
  }
  if (is_gemm(op)) {
    if (op.count != 0 || op.root != 0 || op.peer != 0) {
      return refuse('0', "a GEMM has count, root and peer 0");
    }
    return check_gemm(op);
  }
  if (!moves_vectors(op)) return Status();
  if (op.m != 0 || op.n != 0 || op.k != 0 || op.lda != 0 || op.ldb != 0 || op.ldc != 0 ||
      op.transpose_a || op.transpose_b || op.pack_b || op.out_dtype != op.dtype) {
    return refuse('0', "{} has matrix fields", describe(op));
  }
  const bool rooted = op.kind == OpKind::kBroadcast || op.kind == OpKind::kSendRecv;
  const bool paired = op.kind == OpKind::kSendRecv;
  if (op.root < 0 || op.root >= (rooted ? int64_t(ranks) : 1) || op.peer < 0 ||
      op.peer >= (paired ? int64_t(ranks) : 1) || (paired && op.peer == op.root)) {
    return refuse('0', "{} in a world of {} has root {} and peer {}", describe(op), ranks, op.root,
                  op.peer);
  }
  if (paired && op.in_place) return refuse('0', "send and receive are never in place");
  const bool reduces = op.kind == OpKind::kAllreduce || op.kind == OpKind::kReduceScatter;
  if (reduces && op.redop == RedOp::kAvg && !is_float(op.dtype)) {
    return refuse('0', "{}: averages are for floating types", describe(op));
  }
  return Status();
}

Status check_operand(const Plan& plan, size_t id, std::vector<uint8_t>& seen) {
  const Buffer& buffer = plan.buffers[id];
  const Extent extent = operand_extent(plan, buffer.operand);
  const bool used =
      moves_vectors(plan.op) ? buffer.operand <= 1 : is_gemm(plan.op) && buffer.operand <= 2;
  if (!used || extent.bytes != buffer.bytes) {
    return refuse('0', "buffer {}, operand {} of {}, has {} bytes, not {}", id, buffer.operand,
                  describe(plan.op), buffer.bytes, used ? extent.bytes : 0);
  }
  const BufferKind kind = plan.op.in_place      ? BufferKind::kInOut
                          : buffer.operand == 1 ? BufferKind::kOutput
                                                : BufferKind::kInput;
  if (buffer.kind != kind) return refuse('0', "buffer {} has the wrong kind for its operand", id);
  uint8_t& operands = seen[buffer.owner];
  operands |= uint8_t(1u << buffer.operand);
  if (plan.op.in_place && (operands & 3) == 3) {
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
  SK_RETURN_IF_ERROR(check_descriptor(plan.op, ranks));
  for (uint32_t operand = 0; operand < 3; ++operand) {
    const Extent extent = operand_extent(plan, operand);
    if (extent.overflow || extent.bytes >= uint64_t(1) << 48) {
      return refuse('d', "operand {} of {} is larger than 2^48 bytes", operand, describe(plan.op));
    }
  }
  std::vector<uint8_t> seen(ranks, 0);
  for (size_t id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.kind == BufferKind::kWorkspace) continue;
    if (buffer.owner >= ranks) return refuse('0', "buffer {} has owner {}", id, buffer.owner);
    SK_RETURN_IF_ERROR(check_operand(plan, id, seen));
  }
  return Status();
}

}  // namespace sk::check
