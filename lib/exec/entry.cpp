#include <algorithm>

#include "lib/exec/executor.h"

namespace sk {

uint32_t signals_per_producer(uint32_t world_size) {
  // Planners number signals producer * lanes + lane with at most 17 lanes a queue (a fused GEMM):
  // some 5 queues' worth.
  return std::max(512u, world_size * 96);
}

Ledger::Ledger(uint32_t world_size, uint32_t signals_per_producer)
    : per_producer_(signals_per_producer),
      size_(size_t(world_size) * signals_per_producer),
      base_(zeros(size_)),
      posted_(zeros(size_)) {}

Ledger::Words Ledger::zeros(size_t count) {
  return Words(static_cast<uint64_t*>(std::calloc(count, sizeof(uint64_t))));
}

std::array<uint64_t, 3> pack_call(const OpDesc& op) {
  const bool gemm = op.kind == OpKind::kAllreduceGemm;
  return {uint64_t(op.kind) | uint64_t(op.dtype) << 8 | uint64_t(op.out_dtype) << 16 |
              uint64_t(op.redop) << 24 | uint64_t(op.symmetric_in) << 32 |
              uint64_t(op.symmetric_out) << 33 | uint64_t(op.in_place) << 34,
          uint64_t(gemm ? op.m : op.count),
          gemm ? uint64_t(op.n) << 32 | uint32_t(op.k)
               : uint64_t(uint32_t(op.root)) << 32 | uint32_t(op.peer)};
}

OpDesc unpack_call(const uint64_t (&call)[3]) {
  OpDesc op;
  op.kind = OpKind(call[0] & 0xff);
  op.dtype = DType(call[0] >> 8 & 0xff);
  op.out_dtype = DType(call[0] >> 16 & 0xff);
  op.redop = RedOp(call[0] >> 24 & 0xff);
  op.symmetric_in = call[0] >> 32 & 1;
  op.symmetric_out = call[0] >> 33 & 1;
  op.in_place = call[0] >> 34 & 1;
  if (op.kind == OpKind::kAllreduceGemm) {
    op.m = int64_t(call[1]);
    op.n = int64_t(call[2] >> 32);
    op.k = int64_t(call[2] & 0xffffffffu);
  } else {
    op.count = int64_t(call[1]);
    op.root = int32_t(call[2] >> 32);
    op.peer = int32_t(call[2]);
  }
  return op;
}

namespace {

constexpr uint32_t kProgressShift = 35;  // Above what pack_call() fills.
constexpr uint64_t kProgressMask = (uint64_t{1} << (64 - kProgressShift)) - 1;

}  // namespace

uint64_t with_progress(uint64_t first_word, uint64_t seq) {
  return (first_word & ((uint64_t{1} << kProgressShift) - 1)) | seq << kProgressShift;
}

bool had_entered(const uint64_t (&call)[3], uint64_t seq) {
  const uint64_t ahead = ((call[0] >> kProgressShift) - seq) & kProgressMask;
  return ahead <= kProgressMask / 2;
}

}  // namespace sk
