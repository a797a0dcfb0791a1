// All-gather of many ranks around a ring, host by host: every rank passes its own block to the next
// one, then what has come from the one before it. A block is cut into a few chunks, which follow
// one another.
//
// In step 2i every rank puts chunk i of what it passes on. Where blocks have several chunks, it
// takes a chunk after it has put the next one, so that a put's way is hidden.
#include <algorithm>

#include "lib/algo/chunks.h"
#include "lib/algo/hosts.h"
#include "lib/algo/large_worlds.h"
#include "lib/algo/neighbours.h"

namespace sk::algo {
namespace {

class GatherRing {
 public:
  GatherRing(const OpDesc& op, const Target& target)
      : layout_(op, target),
        op_(vector_call(op)),
        order_(target, 0),
        out_(layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kOutput,
                                 BufferAccess::kLocal, 1, layout_.ranks() * block_bytes())),
        in_(op_.in_place
                ? out_
                : layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, block_bytes())),
        chunks_(layout_, uint64_t(op_.count), /*pairs=*/layout_.ranks()),
        per_block_(chunks_.count(uint64_t(op_.count))),
        slack_(per_block_ > 1 ? 1 : 0),
        inbox_(add_inbox(layout_, chunks_.elements() * layout_.element_bytes())) {}

  uint64_t chunk_count() const { return uint64_t(layout_.ranks() - 1) * per_block_; }

  std::vector<Flow> flows(uint32_t rank) const {
    std::vector<Flow> all = {from(before(rank)), from(rank)};
    return all;
  }

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  uint64_t block_bytes() const { return uint64_t(op_.count) * layout_.element_bytes(); }
  uint32_t before(uint32_t rank) const { return order_.before(rank, 1); }
  uint32_t next(uint32_t rank) const { return order_.after(rank, 1); }
  uint32_t passed() const { return (layout_.ranks() - 1) * per_block_; }  // Chunks of a rank.
  // Whose block chunk `i` of what `rank` passes on is of, and which part of that.
  uint32_t source(uint32_t rank, uint32_t i) const { return order_.before(rank, i / per_block_); }
  Slice piece(uint32_t i) const { return chunks_.of({0, uint64_t(op_.count)}, i % per_block_); }

  Flow from(uint32_t rank) const {
    Flow flow = flow_into(inbox_, rank, next(rank), 0);
    flow.chunks.reserve(passed());
    for (uint32_t i = 0; i < passed(); ++i) {
      const uint32_t whose = source(rank, i);
      const Content content{.operand = 0,
                            .first = whose,
                            .last = whose + 1,
                            .column = piece(i).begin,
                            .columns = piece(i).count};
      flow.chunks.push_back(
          {piece(i).count * layout_.element_bytes(), content, 2ull * i, 2ull * (i + slack_) + 1});
    }
    return flow;
  }

  Region place(uint32_t rank, uint32_t whose, Slice piece) const {
    const uint64_t es = layout_.element_bytes();
    return flat(out_ + rank, whose * block_bytes() + piece.begin * es, piece.count * es, kWrite);
  }

  RankPlan part_of(uint32_t rank) const {
    const std::vector<Flow> all = flows(rank);
    const Flow &in = all[0], &out = all[1];
    Part part = begin_part(layout_, rank, all);
    const Slice whole{0, uint64_t(op_.count)};
    if (!op_.in_place) {
      part.copy(0, flat(in_ + rank, 0, block_bytes(), kRead), place(rank, rank, whole));
    }
    for (uint32_t i = 0; i < passed() + slack_; ++i) {
      // The first chunks are the own block, which nobody has to be waited for.
      if (i < passed()) put(part, out, i);
      if (i >= slack_) take(part, in, i - slack_);
    }
    return part.finish();
  }

  void put(Part& part, const Flow& out, uint32_t i) const {
    const uint32_t rank = part.rank();
    const bool own = i < per_block_;
    Region src = place(rank, source(rank, i), piece(i));
    if (own && !op_.in_place) {
      const uint64_t es = layout_.element_bytes();
      src = flat(in_ + rank, piece(i).begin * es, piece(i).count * es, kRead);
    }
    put_chunk(part, out, i, src, /*after_all=*/!own);
  }

  void take(Part& part, const Flow& in, uint32_t i) const {
    take_chunk(part, in, i, place(part.rank(), source(in.from, i), piece(i)));
  }

  Layout layout_;
  VectorCall op_;
  HostByHost order_;
  uint32_t out_, in_;
  Chunks chunks_;
  uint32_t per_block_, slack_;
  Inbox inbox_;
};

}  // namespace

Plan allgather_ring(const OpDesc& op, const Target& target, Ranks ranks) {
  return GatherRing(op, target).plan(ranks);
}

uint64_t allgather_ring_chunks(const OpDesc& op, const Target& target) {
  return chunks_by<GatherRing>(op, target);
}

FlowsOf allgather_ring_flows(const OpDesc& op, const Target& target) {
  return flows_by<GatherRing>(op, target);
}

}  // namespace sk::algo
