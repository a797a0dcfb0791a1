// Broadcast to many ranks along a chain that begins at the root, host by host, chunk by chunk: a
// rank passes on what has come, and then takes it, at time c + 2p the p-th one chunk c.
#include "lib/algo/chunks.h"
#include "lib/algo/hosts.h"
#include "lib/algo/large_worlds.h"
#include "lib/algo/neighbours.h"

namespace sk::algo {
namespace {

class BroadcastChain {
 public:
  BroadcastChain(const OpDesc& op, const Target& target)
      : layout_(op, target),
        op_(vector_call(op)),
        order_(target, uint32_t(op_.root)),
        out_(layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kOutput,
                                 BufferAccess::kLocal, 1, bytes())),
        in_(op_.in_place
                ? out_
                : layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, bytes())),
        chunks_(layout_, uint64_t(op_.count), /*pairs=*/2),
        inbox_(add_inbox(layout_, chunks_.elements() * layout_.element_bytes())) {}

  uint64_t chunk_count() const { return chunks_.count(whole().count); }

  std::vector<Flow> flows(uint32_t rank) const {
    std::vector<Flow> all;
    const uint32_t place = place_of(rank);
    if (place > 0) all.push_back(to(place));
    if (place + 1 < layout_.ranks()) all.push_back(to(place + 1));
    return all;
  }

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  uint64_t bytes() const { return uint64_t(op_.count) * layout_.element_bytes(); }
  Slice whole() const { return {0, uint64_t(op_.count)}; }
  // Along the chain; the root's is 0.
  uint32_t place_of(uint32_t rank) const { return order_.place_of(rank); }
  uint32_t rank_at(uint32_t place) const { return order_.rank_at(place); }

  // What comes to the rank at `place`.
  Flow to(uint32_t place) const {
    const uint32_t rank = rank_at(place);
    Flow flow = flow_into(inbox_, rank_at(place - 1), rank, 0);
    for (uint32_t c = 0; c < chunks_.count(whole().count); ++c) {
      const Slice piece = chunks_.of(whole(), c);
      const Content content{.operand = 1,
                            .first = rank,
                            .last = rank + 1,
                            .column = piece.begin,
                            .columns = piece.count};
      flow.chunks.push_back({piece.count * layout_.element_bytes(), content, c + 2ull * (place - 1),
                             c + 2ull * place});
    }
    return flow;
  }

  RankPlan part_of(uint32_t rank) const {
    const std::vector<Flow> all = flows(rank);
    Part part = begin_part(layout_, rank, all);
    const bool root = place_of(rank) == 0;
    const Flow* const out = root || all.size() > 1 ? &all.back() : nullptr;
    for (uint32_t c = 0; c < chunks_.count(whole().count); ++c) {
      const Slice piece = chunks_.of(whole(), c);
      const uint64_t es = layout_.element_bytes();
      Region mine = flat((root ? in_ : out_) + rank, piece.begin * es, piece.count * es, kWrite);
      if (root) {
        put_chunk(part, *out, c, mine, /*after_all=*/false);
      } else if (out != nullptr) {
        pass_chunk(part, all[0], *out, c, mine);
      } else {
        take_chunk(part, all[0], c, mine);
      }
    }
    // Behind what others wait for.
    if (root && !op_.in_place) {
      part.copy(0, flat(in_ + rank, 0, bytes(), kRead), flat(out_ + rank, 0, bytes(), kWrite));
    }
    return part.finish();
  }

  Layout layout_;
  VectorCall op_;
  HostByHost order_;
  uint32_t out_, in_;
  Chunks chunks_;
  Inbox inbox_;
};

}  // namespace

Plan broadcast_chain(const OpDesc& op, const Target& target, Ranks ranks) {
  return BroadcastChain(op, target).plan(ranks);
}

uint64_t broadcast_chain_chunks(const OpDesc& op, const Target& target) {
  return chunks_by<BroadcastChain>(op, target);
}

FlowsOf broadcast_chain_flows(const OpDesc& op, const Target& target) {
  return flows_by<BroadcastChain>(op, target);
}

}  // namespace sk::algo
