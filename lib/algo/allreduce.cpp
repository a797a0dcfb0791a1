// All-reduce, in one of five forms; many ranks have one more (large_worlds.h), ranks of several
// hosts two (two_level.h).
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
#include "lib/algo/shares.h"
#include "lib/algo/two_level.h"

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
  const Operands operands =
      add_operands(layout, layout.operand_access(true), layout.operand_access(true));
  const Shares shares(layout, uint64_t(op.count), layout.ranks());
  const uint32_t queues = shares.queues();
  const StoreHintParam hint = store_hint(layout, uint64_t(op.count) * layout.element_bytes());
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    // Lane q: queue q of the producer has reduced its share of this rank's operands.
    Part part(layout, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
      return producer != rank && shares.has(producer, lane) ? 1u : 0u;
    });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues; ++queue) {
      part.await(queue);
      const std::vector<Share> mine = shares.of(rank, queue);
      for (size_t i = 0; i < mine.size(); ++i) {
        const bool is_last = i + 1 == mine.size();
        const Region in = shares.region(mine[i], operands.in, 0, kRead, layout.ranks());
        const Region out = shares.region(mine[i], operands.out, 0, kWrite, layout.ranks());
        part.reduce(queue, {in, out}, op.dtype, op.dtype, op.redop, false, {},
                    is_last ? part.to_all_peers(queue) : std::vector<Post>(), hint,
                    /*posts_in_order=*/i > 0);
      }
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
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  const Shares shares(layout, uint64_t(layout.call().count), 1);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    Part part(layout, rank, shares.queues(), /*lanes=*/0, [](uint32_t, uint32_t) { return 0u; });
    part.enter(false);
    for (uint32_t queue = 0; queue < shares.queues(); ++queue) {
      part.await(queue);
      for (const Share& share : shares.of(0, queue)) {
        part.copy(queue, shares.region(share, operands.in, 0, kRead),
                  shares.region(share, operands.out, 0, kWrite));
      }
    }
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
  if (std::optional<Plan> plan = plan_in_levels(op, target, ranks)) return std::move(*plan);
  if (layout.one_shot(bytes, symmetric)) return one_shot(std::move(layout), ranks);
  if (target.mapped && symmetric) return direct(std::move(layout), ranks);
  if (target.world_size == 2 && (target.mapped || !call.symmetric_out)) {
    return allreduce_exchange(std::move(layout), ranks);
  }
  if (target.mapped) return allreduce_staged(std::move(layout), ranks);
  return allreduce_stream(std::move(layout), ranks);
}

}  // namespace sk::algo
