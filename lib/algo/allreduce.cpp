// All-reduce, in one of three forms.
//
// direct   (operands mapped)   each rank reduces its slice from all inputs into all outputs
// one-shot (small, mapped)     each copies its input into its staging area; each reduces all of
// them stream   (anything else)     slices flow to their owner, are reduced there in rank order,
// and the
//                              sums flow back: two rings of puts
#include <algorithm>

#include "lib/algo/ops.h"
#include "lib/algo/ring.h"

namespace sk::algo {
namespace {

// The caller's operands: ids of rank 0's input and output, the same where in place.
struct Operands {
  uint32_t in = 0, out = 0;
};

Operands add_operands(Layout& layout, BufferAccess in_access, BufferAccess out_access) {
  const OpDesc& op = layout.op();
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

StoreHintParam store_hint(const Layout& layout, uint64_t bytes) {
  return bytes >= layout.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
}

Plan direct(Layout layout, Ranks ranks) {
  const OpDesc op = layout.op();
  const uint64_t es = layout.element_bytes();
  const Operands operands =
      add_operands(layout, layout.operand_access(true), layout.operand_access(true));
  const uint64_t per_rank = uint64_t(op.count) * es / layout.ranks();
  const uint32_t queues = uint32_t(
      std::clamp<uint64_t>(per_rank / (128 << 10), 1, std::max(1u, layout.target().workers)));
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
  Plan plan = layout.take();
  plan.ranks = std::move(parts);
  return plan;
}

Plan one_shot(Layout layout, Ranks ranks) {
  const OpDesc op = layout.op();
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
    part.reduce(0,
                {flat(staging, 0, bytes, kRead, layout.ranks()),
                 flat(operands.out + rank, 0, bytes, kWrite)},
                op.dtype, op.dtype, op.redop, /*after_all=*/true, {}, {},
                layout.ranks() == 2 ? kTakeInputs : kStoreDefault);  // Two: one reader of each.
    parts.push_back(part.finish());
  }
  Plan plan = layout.take();
  plan.ranks = std::move(parts);
  return plan;
}

// A world of one: the input is the result, whatever the reduction.
Plan local_copy(Layout layout, Ranks ranks) {
  const uint64_t bytes = uint64_t(layout.op().count) * layout.element_bytes();
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    Part part(layout, rank, /*queues=*/1, /*lanes=*/0, [](uint32_t, uint32_t) { return 0u; });
    part.enter(false);
    part.await(0);
    part.copy(0, flat(operands.in, 0, bytes, kRead), flat(operands.out, 0, bytes, kWrite));
    parts.push_back(part.finish());
  }
  Plan plan = layout.take();
  plan.ranks = std::move(parts);
  return plan;
}

// The ring pipeline of one rank. Step c puts chunk c of every peer's slice, reduces chunk c - 1 of
// the own slice, and hands on chunk c - 2 of the sums: two steps of slack hide the hand-offs.
class StreamPart {
 public:
  StreamPart(const Layout& layout, Operands operands, const Ring& in_ring, const Ring* sum_ring,
             uint32_t rank)
      : layout_(layout),
        op_(layout.op()),
        operands_(operands),
        in_ring_(in_ring),
        sum_ring_(sum_ring),
        part_(layout, rank, 1, in_ring.lane_count() + (sum_ring ? sum_ring->lane_count() : 1),
              [&](uint32_t producer, uint32_t lane) { return posts(rank, producer, lane); }) {}

  RankPlan build() {
    part_.enter(false);
    part_.await(0);
    uint32_t steps = 0;
    for (uint32_t owner = 0; owner < layout_.ranks(); ++owner) {
      steps = std::max(steps, in_ring_.chunks(slice(owner).count));
    }
    for (uint32_t step = 0; step < steps + 2; ++step) {
      put_contributions(step);
      if (step >= 1) reduce_own(step - 1);
      if (step >= 2 && sum_ring_ != nullptr) take_sums(step - 2);
    }
    return part_.finish();
  }

 private:
  Slice slice(uint32_t owner) const {
    return slice_of(op_.count, layout_.ranks(), owner, line_elements(op_.dtype));
  }

  uint32_t posts(uint32_t rank, uint32_t producer, uint32_t lane) const {
    if (producer == rank) return 0;
    const uint64_t to_rank = slice(rank).count, to_producer = slice(producer).count;
    if (in_ring_.has(lane)) return in_ring_.posts(lane, to_rank, to_producer);
    if (sum_ring_ == nullptr) return in_ring_.chunks(to_producer);
    return sum_ring_->posts(lane, to_producer, to_rank);
  }
  // Of sums that are put straight into the peers' outputs: waited for all together.
  uint32_t sum_lane() const { return in_ring_.lane_count(); }

  Region own(uint32_t buffer, Slice piece, RegionAccess access) const {
    const uint64_t es = layout_.element_bytes();
    return flat(buffer, piece.begin * es, piece.count * es, access);
  }

  void put_contributions(uint32_t chunk) {
    for (uint32_t i = 1; i < layout_.ranks(); ++i) {  // Rotated, so that no owner is hit by all.
      const uint32_t owner = (part_.rank() + i) % layout_.ranks();
      if (chunk >= in_ring_.chunks(slice(owner).count)) continue;
      const Slice piece = in_ring_.chunk(slice(owner), chunk);
      in_ring_.put(part_, owner, chunk, own(operands_.in + part_.rank(), piece, kRead), false);
    }
  }

  void reduce_own(uint32_t chunk) {
    const uint32_t rank = part_.rank(), ranks = layout_.ranks();
    const Slice mine = slice(rank);
    if (chunk >= in_ring_.chunks(mine.count)) return;
    const Slice piece = in_ring_.chunk(mine, chunk);
    std::vector<Wait> waits;
    std::vector<Post> credits;
    for (const uint32_t peer : part_.peers()) {
      waits.push_back(in_ring_.arrival(part_, peer, chunk));
      if (const auto credit = in_ring_.credit(part_, peer, chunk, mine.count)) {
        credits.push_back(*credit);
      }
    }
    // In rank order: the slots of lower ranks, the own input, the slots of higher ranks.
    const Region low = in_ring_.slot(rank, 0, chunk, piece.count, kRead, rank);
    const Region in = own(operands_.in + rank, piece, kRead);
    const Region high = in_ring_.slot(rank, rank + 1, chunk, piece.count, kRead, ranks - rank - 1);
    const Region out = own(operands_.out + rank, piece, kWrite);
    const auto reduce = [&](std::initializer_list<Region> regions) {
      part_.reduce(0, regions, op_.dtype, op_.dtype, op_.redop, false, waits, credits, kTakeInputs);
    };
    if (rank == 0) {
      reduce({in, high, out});
    } else if (rank == ranks - 1) {
      reduce({low, in, out});
    } else {
      reduce({low, in, high, out});
    }
    bool first = true;  // The first put behind the reduction waits for it; the others start later.
    for (uint32_t i = 1; i < ranks; ++i) {
      const uint32_t peer = (rank + i) % ranks;
      const Region sum = own(operands_.out + rank, piece, kRead);
      if (sum_ring_ != nullptr) {
        sum_ring_->put(part_, peer, chunk, sum, first);
      } else {
        part_.put(sum, own(operands_.out + peer, piece, kWrite), part_.to(peer, sum_lane()), first,
                  {});
      }
      first = false;
    }
  }

  void take_sums(uint32_t chunk) {
    for (const uint32_t owner : part_.peers()) {
      const Slice whole = slice(owner);
      if (chunk >= sum_ring_->chunks(whole.count)) continue;
      const Slice piece = sum_ring_->chunk(whole, chunk);
      const Wait arrival = sum_ring_->arrival(part_, owner, chunk);
      const auto credit = sum_ring_->credit(part_, owner, chunk, whole.count);
      part_.copy(0, sum_ring_->slot(part_.rank(), owner, chunk, piece.count, kRead),
                 own(operands_.out + part_.rank(), piece, kWrite), false, {&arrival, 1},
                 credit ? std::span(&*credit, 1) : std::span<const Post>(), kTakeInputs);
    }
  }

  const Layout& layout_;
  const OpDesc& op_;
  Operands operands_;
  const Ring& in_ring_;
  const Ring* sum_ring_;  // Null: sums are put straight into the peers' outputs.
  Part part_;
};

Plan stream(Layout layout, Ranks ranks) {
  const OpDesc op = layout.op();
  const Operands operands =
      add_operands(layout, BufferAccess::kLocal, layout.operand_access(op.symmetric_out));
  const uint64_t longest = slice_of(op.count, layout.ranks(), 0, line_elements(op.dtype)).count;
  const Ring in_ring(layout, longest, /*first_lane=*/0);
  std::optional<Ring> sum_ring;
  if (!op.symmetric_out) {
    sum_ring.emplace(layout, longest, in_ring.lane_count());
  }
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    parts.push_back(
        StreamPart(layout, operands, in_ring, sum_ring ? &*sum_ring : nullptr, rank).build());
  }
  Plan plan = layout.take();
  plan.ranks = std::move(parts);
  return plan;
}

}  // namespace

Result<Plan> plan_allreduce(const OpDesc& op, const Target& target, Ranks ranks) {
  const uint64_t bytes = uint64_t(op.count) * dtype_bytes(op.dtype);
  Layout layout(op, target);
  if (bytes == 0 || (target.world_size == 1 && op.in_place)) return plan_barrier(op, target, ranks);
  if (target.world_size == 1) return local_copy(std::move(layout), ranks);
  if (target.mapped && op.symmetric_in && op.symmetric_out) return direct(std::move(layout), ranks);
  if (target.mapped && bytes <= target.one_shot_bytes) return one_shot(std::move(layout), ranks);
  return stream(std::move(layout), ranks);
}

}  // namespace sk::algo
