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

void pack_call(const OpDesc& op, EntrySlot& entry) {
  const bool gemm = op.kind == OpKind::kAllreduceGemm;
  entry.call[0] = uint64_t(op.kind) | uint64_t(op.dtype) << 8 | uint64_t(op.out_dtype) << 16 |
                  uint64_t(op.redop) << 24 | uint64_t(op.symmetric_in) << 32 |
                  uint64_t(op.symmetric_out) << 33 | uint64_t(op.in_place) << 34;
  entry.call[1] = uint64_t(gemm ? op.m : op.count);
  entry.call[2] = gemm ? uint64_t(op.n) : uint64_t(uint32_t(op.root)) << 32 | uint32_t(op.peer);
  if (!gemm) return;
  entry.more[0] =
      1 | uint64_t(op.transpose_a) << 1 | uint64_t(op.pack_b) << 2 | uint64_t(op.transpose_b) << 3;
  entry.more[1] = uint64_t(op.k);
  entry.more[2] = uint64_t(op.lda);
  entry.more[3] = uint64_t(op.ldb);
  entry.more[4] = uint64_t(op.ldc);
}

OpDesc unpack_call(const EntrySlot& entry) {
  const uint64_t word = entry.call[0];
  OpDesc op;
  op.kind = OpKind(word & 0xff);
  op.dtype = DType(word >> 8 & 0xff);
  op.out_dtype = DType(word >> 16 & 0xff);
  op.redop = RedOp(word >> 24 & 0xff);
  op.symmetric_in = word >> 32 & 1;
  op.symmetric_out = word >> 33 & 1;
  op.in_place = word >> 34 & 1;
  if (op.kind != OpKind::kAllreduceGemm) {
    op.count = int64_t(entry.call[1]);
    op.root = int32_t(entry.call[2] >> 32);
    op.peer = int32_t(entry.call[2]);
    return op;
  }
  op.m = int64_t(entry.call[1]);
  op.n = int64_t(entry.call[2]);
  op.transpose_a = entry.more[0] >> 1 & 1;
  op.pack_b = entry.more[0] >> 2 & 1;
  op.transpose_b = entry.more[0] >> 3 & 1;
  op.k = int64_t(entry.more[1]);
  op.lda = int64_t(entry.more[2]);
  op.ldb = int64_t(entry.more[3]);
  op.ldc = int64_t(entry.more[4]);
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
