#include "lib/plan/check/operands.h"

namespace sk::check {
namespace {

Extent matrix(int64_t rows, int64_t columns, int64_t stride, uint64_t element_bytes) {
  Extent extent;
  if (rows == 0 || columns == 0) return extent;
  extent.rows = uint64_t(rows);
  uint64_t last = 0;
  extent.overflow = __builtin_mul_overflow(uint64_t(columns), element_bytes, &extent.row_bytes) ||
                    __builtin_mul_overflow(uint64_t(stride), element_bytes, &extent.stride) ||
                    __builtin_mul_overflow(extent.stride, extent.rows - 1, &last) ||
                    __builtin_add_overflow(last, extent.row_bytes, &extent.bytes);
  return extent;
}

Extent vector(int64_t count, uint64_t copies, uint64_t element_bytes) {
  Extent extent;
  extent.overflow = __builtin_mul_overflow(uint64_t(count), copies * element_bytes, &extent.bytes);
  extent.rows = extent.bytes > 0;
  extent.row_bytes = extent.stride = extent.bytes;
  return extent;
}

Extent gemm_extent(const Plan& plan, uint32_t operand) {
  const OpDesc& op = plan.op;
  const uint64_t element = dtype_bytes(op.dtype);
  if (op.m == 0 || op.n == 0) return {};
  switch (operand) {
    case 0:
      return op.transpose_a ? matrix(op.k, op.m, op.lda, element)
                            : matrix(op.m, op.k, op.lda, element);
    case 1:
      return matrix(op.m, op.n, op.ldc, dtype_bytes(op.out_dtype));
    case 2:
      if (!op.pack_b) return vector(int64_t(plan.target.packed_bytes), 1, 1);
      return op.transpose_b ? matrix(op.n, op.k, op.ldb, element)
                            : matrix(op.k, op.n, op.ldb, element);
    default:
      return {};  // A product has three.
  }
}

}  // namespace

Extent operand_extent(const Plan& plan, uint32_t operand) {
  const OpDesc& op = plan.op;
  if (op.kind == OpKind::kAllreduceGemm) return gemm_extent(plan, operand);
  if (operand > 1) return {};
  const uint64_t ranks = plan.target.world_size, element = dtype_bytes(op.dtype);
  switch (op.kind) {
    case OpKind::kAllreduce:
    case OpKind::kBroadcast:
    case OpKind::kSendRecv:
      return vector(op.count, 1, element);
    case OpKind::kAllgather:
      return vector(op.count, op.in_place || operand == 1 ? ranks : 1, element);
    case OpKind::kReduceScatter:
      return vector(op.count, op.in_place || operand == 0 ? ranks : 1, element);
    case OpKind::kAllreduceGemm:  // Above.
    case OpKind::kBarrier:
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      break;
  }
  return {};
}

Window output_window(const Plan& plan, uint32_t rank) {
  const OpDesc& op = plan.op;
  const uint64_t bytes = operand_extent(plan, 1).bytes;
  if (op.kind == OpKind::kSendRecv) return {0, rank == uint32_t(op.peer) ? bytes : 0};
  if (op.kind != OpKind::kReduceScatter || !op.in_place) return {0, bytes};
  const uint64_t share = bytes / plan.target.world_size;
  return {rank * share, share};
}

Window input_window(const Plan& plan, uint32_t rank) {
  const OpDesc& op = plan.op;
  const uint64_t bytes = operand_extent(plan, 0).bytes;
  if (op.kind == OpKind::kSendRecv || op.kind == OpKind::kBroadcast) {
    return {0, rank == uint32_t(op.root) ? bytes : 0};
  }
  if (op.kind != OpKind::kAllgather || !op.in_place) return {0, bytes};
  const uint64_t share = bytes / plan.target.world_size;
  return {rank * share, share};
}

}  // namespace sk::check
