// All-reduce, in one of five forms; many ranks have one more (large_worlds.h).
//
// direct    (operands mapped)    each rank reduces its slice from all inputs into all outputs
// one-shot  (small, mapped)      each copies its input into its staging area; each reduces all of
//                                them
// exchange  (two ranks)          each passes all of its input to the other and reduces all: puts
// staged    (mapped)             chunks are copied in, reduced slice by slice, copied out
// stream    (anything else)      slices flow to their owner, are reduced there in rank order, and
//                                the sums flow back: two rings of puts
#include <algorithm>

#include "lib/algo/allreduce_forms.h"
#include "lib/algo/large_worlds.h"
#include "lib/algo/ops.h"
#include "lib/algo/part.h"

namespace sk::algo {

Operands add_operands(Layout& layout, BufferAccess in_access, BufferAccess out_access) {
  const VectorCall& op = layout.call();
  const uint64_t bytes = uint64_t(op.count) * layout.element_bytes();
  if (op.in_place) {
    // One buffer with the wider access of the two.
    const uint32_t id = layout.add_operand(
        BufferKind::kInOut, out_access == BufferAccess::kLocal ? in_access : out_access, 1, bytes);
    return {id, id};
  }
  const uint32_t in = layout.add_operand(BufferKind::kInput, in_access, 0, bytes);
  return {in, layout.add_operand(BufferKind::kOutput, out_access, 1, bytes)};
}

namespace {

StoreHintParam store_hint(const Layout& layout, uint64_t bytes) {
  return bytes >= layout.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
}

Plan direct(Layout layout, Ranks ranks) {
  const VectorCall op = layout.call();
  const uint64_t es = layout.element_bytes();
  const Operands operands =
      add_operands(layout, layout.operand_access(true), layout.operand_access(true));
  const uint64_t per_rank = uint64_t(op.count) * es / layout.ranks();
  const uint32_t queues_max = std::clamp<uint32_t>(layout.target().workers, 1, layout.lanes_max());
  const uint32_t queues = uint32_t(std::clamp<uint64_t>(per_rank / (128 << 10), 1, queues_max));
  const StoreHintParam hint = store_hint(layout, uint64_t(op.count) * es);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    const auto has_work = [&](uint32_t r, uint32_t queue) {
      return slice_of(op.count, layout.ranks() * queues, r * queues + queue,
                      line_elements(op.dtype));
    };
    // Lane q: queue q of the producer has reduced its piece of this rank's operands.
    Part part(layout, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
      return producer != rank && has_work(producer, lane).count > 0 ? 1u : 0u;
    });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues; ++queue) {
      part.await(queue);
      const Slice slice = has_work(rank, queue);
      if (slice.count == 0) continue;
      const Region in =
          flat(operands.in, slice.begin * es, slice.count * es, kRead, layout.ranks());
      const Region out =
          flat(operands.out, slice.begin * es, slice.count * es, kWrite, layout.ranks());
      part.reduce(queue, {in, out}, op.dtype, op.dtype, op.redop, false, {},
                  part.to_all_peers(queue), hint);
    }
    parts.push_back(part.finish());
  }
  return layout.finish(std::move(parts));
}

Plan one_shot(Layout layout, Ranks ranks) {
  const VectorCall op = layout.call();
  const uint64_t bytes = uint64_t(op.count) * layout.element_bytes();
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  const uint32_t staging = layout.add_workspace(BufferAccess::kMapped, bytes, /*generations=*/2);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    Part part(layout, rank, /*queues=*/1, /*lanes=*/0, [](uint32_t, uint32_t) { return 0u; });
    part.copy(0, flat(operands.in + rank, 0, bytes, kRead), flat(staging + rank, 0, bytes, kWrite),
              false, {}, {}, kHandOver);
    part.enter(/*after_all=*/true);
    part.await(0);
    part.reduce_ranks(0, flat(staging, 0, bytes, kRead), flat(operands.in + rank, 0, bytes, kRead),
                      flat(operands.out + rank, 0, bytes, kWrite), op.dtype, op.redop,
                      /*after_all=*/true, {}, {}, kStoreDefault);
    parts.push_back(part.finish());
  }
  return layout.finish(std::move(parts));
}

// A world of one: the input is the result, whatever the reduction.
Plan local_copy(Layout layout, Ranks ranks) {
  const uint64_t bytes = uint64_t(layout.call().count) * layout.element_bytes();
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    Part part(layout, rank, /*queues=*/1, /*lanes=*/0, [](uint32_t, uint32_t) { return 0u; });
    part.enter(false);
    part.await(0);
    part.copy(0, flat(operands.in, 0, bytes, kRead), flat(operands.out, 0, bytes, kWrite));
    parts.push_back(part.finish());
  }
  return layout.finish(std::move(parts));
}

}  // namespace

Result<Plan> plan_allreduce(const OpDesc& op, const Target& target, Ranks ranks) {
  Layout layout(op, target);
  const VectorCall call = layout.call();
  const uint64_t bytes = uint64_t(call.count) * layout.element_bytes();
  if (bytes == 0 || (target.world_size == 1 && call.in_place)) {
    return plan_barrier(op, target, ranks);
  }
  if (target.world_size == 1) return local_copy(std::move(layout), ranks);
  const bool symmetric = call.symmetric_in && call.symmetric_out;
  if (layout.one_shot(bytes, symmetric)) return one_shot(std::move(layout), ranks);
  if (target.mapped && symmetric) return direct(std::move(layout), ranks);
  if (target.world_size == 2 && (target.mapped || !call.symmetric_out)) {
    return allreduce_exchange(std::move(layout), ranks);
  }
  if (target.mapped) return allreduce_staged(std::move(layout), ranks);
  return allreduce_stream(std::move(layout), ranks);
}

}  // namespace sk::algo
