// What lies in callers' memory before a run, and what must lie there behind it: include/sk/op.h in
// terms of contributions.
#include <algorithm>

#include "lib/plan/check/accumulate.h"
#include "lib/plan/check/contents.h"
#include "lib/plan/check/operands.h"

namespace sk::check {
namespace {

Stream matrix_bytes(const Extent& extent, const Tag& tag, uint64_t offset, uint64_t bytes) {
  Stream out;
  while (bytes > 0) {
    const uint64_t row = offset / extent.stride, column = offset % extent.stride;
    const bool gap = column >= extent.row_bytes;
    const uint64_t size = std::min(bytes, (gap ? extent.stride : extent.row_bytes) - column);
    append(out, gap ? Piece{.bytes = size}
                    : Piece{.tag = tag, .bytes = size, .row = row, .column = column});
    offset += size;
    bytes -= size;
  }
  return out;
}

Stream gemm_initial(const Plan& plan, const Operands& operands, const Memory& memory,
                    uint64_t offset, uint64_t bytes, Blobs& blobs) {
  const OpDesc& op = plan.op;
  Tag tag{.ranks = rank_hash(memory.owner), .dtype = op.dtype};
  if (memory.operand == 0 || (memory.operand == 2 && op.pack_b)) {
    tag.space = memory.operand == 0 ? kMatrixA : kMatrixB;
    return matrix_bytes(operands.extent(memory.operand), tag, offset, bytes);
  }
  if (memory.operand == 2) {
    tag.space =
        blobs.space_of({.packed = true, .cols = uint64_t(op.n), .bytes = plan.target.packed_bytes});
    return {{.tag = tag, .bytes = bytes, .column = offset}};
  }
  return {{.bytes = bytes}};
}

Tag contribution(const OpDesc& op, uint32_t rank) {
  return {.space = kElements, .ranks = rank_hash(rank), .dtype = op.dtype};
}

// All ranks' contributions, joined in rank order and rounded once.
Tag joined(Space space, uint32_t ranks, RedOp redop, DType operand, DType result) {
  Tag tag{.space = space, .count = ranks, .dtype = result};
  tag.redop = ranks > 1 ? uint8_t(redop) : 0;
  tag.rounded = accumulator(operand) != result && (ranks > 1 || space == kProduct);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    tag.ranks += rank_hash(rank) * (is_float(operand) ? position_factor(rank) : 1);
  }
  return tag;
}

}  // namespace

Stream initial(const Plan& plan, const Operands& operands, const Memory& memory, uint64_t offset,
               uint64_t bytes, Blobs& blobs) {
  const OpDesc& op = plan.op;
  if (memory.kind == BufferKind::kOutput) return {{.bytes = bytes}};
  if (op.kind == OpKind::kAllreduceGemm)
    return gemm_initial(plan, operands, memory, offset, bytes, blobs);
  const Window window = operands.window(kInput, memory.owner);
  const uint64_t place = op.kind == OpKind::kAllgather ? window.first : 0;
  if (offset < window.first || offset + bytes > window.first + window.count) {
    return {{.bytes = bytes}};  // Cells do not cross the borders of windows.
  }
  return {{.tag = contribution(op, memory.owner), .bytes = bytes, .column = offset - place}};
}

Stream initial_operand(const Plan& plan, const Operands& operands, uint32_t rank) {
  const Window window = operands.window(kInput, rank);
  const uint64_t bytes = operands.extent(kOutput).bytes, behind = window.first + window.count;
  const uint64_t place = plan.op.kind == OpKind::kAllgather ? window.first : 0;
  Stream out;
  append(out, {.bytes = window.first});
  append(
      out,
      {.tag = contribution(plan.op, rank), .bytes = window.count, .column = window.first - place});
  append(out, {.bytes = bytes - behind});
  return out;
}

Stream expected(const Plan& plan, const Operands& operands, uint32_t rank) {
  const OpDesc& op = plan.op;
  const uint32_t ranks = plan.target.world_size;
  const Extent extent = operands.extent(kOutput);
  const Window window = operands.window(kOutput, rank);
  const Tag sum = joined(kElements, ranks, op.redop, op.dtype, op.dtype);
  Stream out;
  switch (op.kind) {
    case OpKind::kAllreduce:
      append(out, {.tag = sum, .bytes = extent.bytes});
      break;
    case OpKind::kAllgather:
      for (uint32_t r = 0; r < ranks; ++r) {
        append(out, {.tag = contribution(op, r), .bytes = extent.bytes / ranks});
      }
      break;
    case OpKind::kReduceScatter: {
      const uint64_t place = op.in_place ? window.first : rank * extent.bytes;
      const uint64_t behind = window.first + window.count;
      append(out, {.tag = contribution(op, rank), .bytes = window.first});
      append(out, {.tag = sum, .bytes = window.count, .column = place});
      append(out,
             {.tag = contribution(op, rank), .bytes = extent.bytes - behind, .column = behind});
      break;
    }
    case OpKind::kBroadcast:
    case OpKind::kSendRecv:
      append(out, {.tag = contribution(op, uint32_t(op.root)), .bytes = window.count});
      append(out, {.bytes = extent.bytes - window.count});
      break;
    case OpKind::kAllreduceGemm:
      append(out, {.tag = joined(kProduct, ranks, RedOp::kSum, op.dtype, op.out_dtype),
                   .rows = extent.rows,
                   .bytes = extent.row_bytes});
      break;
    case OpKind::kBarrier:
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      break;  // They have no operands: check_op().
  }
  return out;
}

}  // namespace sk::check
