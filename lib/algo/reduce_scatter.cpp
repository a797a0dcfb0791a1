// Reduce-scatter: direct (each rank reduces its block from all inputs), one-shot through staging,
// or a ring of puts to each block's owner.
#include <algorithm>

#include "lib/algo/ops.h"
#include "lib/algo/ring.h"
#include "lib/algo/shares.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

class ReduceScatter {
 public:
  ReduceScatter(const OpDesc& op, const Target& target)
      : layout_(op, target),
        block_bytes_(uint64_t(layout_.call().count) * layout_.element_bytes()) {}

  Result<Plan> plan(Ranks ranks) {
    const Target& target = layout_.target();
    if (layout_.one_shot(block_bytes_ * layout_.ranks(), layout_.call().symmetric_in)) {
      return one_shot(ranks);
    }
    if (target.mapped && layout_.call().symmetric_in) return direct(ranks);
    return stream(ranks);
  }

 private:
  // In place, the output is the rank's own block of its input.
  void add_operands(BufferAccess in_access) {
    const uint64_t in_bytes = block_bytes_ * layout_.ranks();
    if (layout_.call().in_place) {
      in_ = layout_.add_operand(BufferKind::kInOut, in_access, 0, in_bytes);
      return;
    }
    in_ = layout_.add_operand(BufferKind::kInput, in_access, 0, in_bytes);
    out_ = layout_.add_operand(BufferKind::kOutput, BufferAccess::kLocal, 1, block_bytes_);
  }
  Region out(uint32_t rank, Slice piece) const {
    const uint64_t es = layout_.element_bytes();
    const bool in_place = layout_.call().in_place;
    return flat(in_place ? in_ + rank : out_ + rank,
                piece.begin * es + (in_place ? rank * block_bytes_ : 0), piece.count * es, kWrite);
  }
  Region in(uint32_t rank, uint32_t block, Slice piece, uint32_t buffer_count = 1) const {
    const uint64_t es = layout_.element_bytes();
    return flat(in_ + rank, block * block_bytes_ + piece.begin * es, piece.count * es, kRead,
                buffer_count);
  }
  Slice whole() const { return {0, uint64_t(layout_.call().count)}; }

  Plan direct(Ranks ranks) {
    add_operands(layout_.operand_access(true));
    const VectorCall& op = layout_.call();
    const Shares shares(layout_, whole().count, 1);
    const uint32_t queues = shares.queues();
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      // Lane q: queue q of the producer has read its share of this rank's input.
      Part part(layout_, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
        return producer != rank && shares.has(0, lane) ? 1u : 0u;
      });
      part.enter(false);
      for (uint32_t queue = 0; queue < queues; ++queue) {
        part.await(queue);
        const std::vector<Share> mine = shares.of(0, queue);
        for (size_t i = 0; i < mine.size(); ++i) {
          const bool is_last = i + 1 == mine.size();
          const Region from =
              shares.region(mine[i], in_, rank * block_bytes_, kRead, layout_.ranks());
          const Region to = op.in_place
                                ? shares.region(mine[i], in_ + rank, rank * block_bytes_, kWrite)
                                : shares.region(mine[i], out_ + rank, 0, kWrite);
          part.reduce(queue, {from, to}, op.dtype, op.dtype, op.redop, false, {},
                      is_last ? part.to_all_peers(queue) : std::vector<Post>(), kStoreDefault,
                      /*posts_in_order=*/i > 0);
        }
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan one_shot(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const uint64_t in_bytes = block_bytes_ * layout_.ranks();
    const uint32_t staging = layout_.add_workspace(BufferAccess::kMapped, in_bytes, 2);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, 0, [](uint32_t, uint32_t) { return 0u; });
      part.copy(0, flat(in_ + rank, 0, in_bytes, kRead), flat(staging + rank, 0, in_bytes, kWrite),
                false, {}, {}, kHandOver);
      part.enter(/*after_all=*/true);
      part.await(0);
      part.reduce_ranks(0, flat(staging, rank * block_bytes_, block_bytes_, kRead),
                        in(rank, rank, whole()), out(rank, whole()), layout_.call().dtype,
                        layout_.call().redop, /*after_all=*/true, {}, {}, kStoreDefault);
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan stream(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const Ring ring(layout_, {layout_.ranks()}, uint64_t(layout_.call().count), /*first_lane=*/0);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(stream_part(ring, rank));
    return layout_.finish(std::move(parts));
  }

  RankPlan stream_part(const Ring& ring, uint32_t rank) const {
    const uint32_t ranks = layout_.ranks();
    const uint64_t count = whole().count;
    Part part(layout_, rank, 1, ring.lane_count(), [&](uint32_t producer, uint32_t lane) {
      return producer == rank ? 0 : ring.posts(lane, count, count);
    });
    part.enter(false);
    part.await(0);
    const uint32_t chunks = ring.chunks(count);
    for (uint32_t step = 0; step < chunks + 1; ++step) {
      for (uint32_t i = 1; step < chunks && i < ranks; ++i) {
        const uint32_t owner = (rank + i) % ranks;
        ring.put(part, owner, step, in(rank, owner, ring.chunk(whole(), step)), false);
      }
      if (step >= 1) reduce_chunk(part, ring, step - 1);
    }
    return part.finish();
  }

  void reduce_chunk(Part& part, const Ring& ring, uint32_t chunk) const {
    const uint32_t rank = part.rank();
    const Slice piece = ring.chunk(whole(), chunk);
    std::vector<Wait> waits;
    std::vector<Post> credits;
    for (const uint32_t peer : part.peers()) {
      waits.push_back(ring.arrival(part, peer, chunk));
      if (const auto credit = ring.credit(part, peer, chunk, whole().count)) {
        credits.push_back(*credit);
      }
    }
    part.reduce_ranks(0, ring.slot(rank, 0, chunk, piece.count, kRead), in(rank, rank, piece),
                      out(rank, piece), layout_.call().dtype, layout_.call().redop, false, waits,
                      credits, kTakeInputs);
  }

  Layout layout_;
  uint64_t block_bytes_;
  uint32_t in_ = 0, out_ = 0;
};

}  // namespace

Result<Plan> plan_reduce_scatter(const OpDesc& op, const Target& target, Ranks ranks) {
  if (std::optional<Plan> plan = plan_in_levels(op, target, ranks)) return std::move(*plan);
  return ReduceScatter(op, target).plan(ranks);
}

}  // namespace sk::algo
