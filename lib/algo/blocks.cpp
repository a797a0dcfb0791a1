// All-to-all, gather and scatter: who gives has a block for each who takes. Direct (givers store
// into the takers' outputs), one-shot through the givers' staging, or a pipe of puts.
#include "lib/algo/ops.h"
#include "lib/algo/pipe.h"
#include "lib/algo/shares.h"

namespace sk::algo {
namespace {

class Blocks {
 public:
  Blocks(const OpDesc& op, const Target& target)
      : layout_(op, target),
        root_(uint32_t(layout_.call().root)),
        gathers_(op.kind() == OpKind::kGather),
        scatters_(op.kind() == OpKind::kScatter),
        block_bytes_(uint64_t(layout_.call().count) * layout_.element_bytes()) {}

  Result<Plan> plan(Ranks ranks) {
    const bool symmetric = layout_.call().symmetric_out;
    if (layout_.one_shot(in_bytes(), symmetric)) return one_shot(ranks);
    if (layout_.target().mapped && symmetric) return direct(ranks);
    return stream(ranks);
  }

 private:
  bool gives(uint32_t rank) const { return !scatters_ || rank == root_; }
  bool takes(uint32_t rank) const { return !gathers_ || rank == root_; }
  bool flows(uint32_t giver, uint32_t taker) const {
    return giver != taker && gives(giver) && takes(taker);
  }
  uint64_t in_bytes() const { return gathers_ ? block_bytes_ : block_bytes_ * layout_.ranks(); }
  uint64_t out_bytes() const { return scatters_ ? block_bytes_ : block_bytes_ * layout_.ranks(); }
  // Where the block of a giver for a taker lies, in bytes.
  uint64_t given_at(uint32_t taker) const { return gathers_ ? 0 : taker * block_bytes_; }
  uint64_t taken_at(uint32_t giver) const { return scatters_ ? 0 : giver * block_bytes_; }
  Slice whole() const { return {0, uint64_t(layout_.call().count)}; }
  Region from(uint32_t giver, uint32_t taker, Slice piece) const {
    const uint64_t es = layout_.element_bytes();
    return flat(in_ + giver, given_at(taker) + piece.begin * es, piece.count * es, kRead);
  }
  Region to(uint32_t giver, uint32_t taker, Slice piece) const {
    const uint64_t es = layout_.element_bytes();
    return flat(out_ + taker, taken_at(giver) + piece.begin * es, piece.count * es, kWrite);
  }

  void add_operands(BufferAccess out_access) {
    in_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, in_bytes());
    out_ = layout_.add_operand(BufferKind::kOutput, out_access, 1, out_bytes());
  }

  Plan direct(Ranks ranks) {
    add_operands(layout_.operand_access(true));
    const StoreHintParam hint =
        out_bytes() >= layout_.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
    const Shares shares(layout_, whole().count, 1);
    const uint32_t queues = shares.queues(), count = layout_.ranks();
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      // Lane q: queue q of the producer has stored its share of the block for this rank.
      Part part(layout_, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
        return flows(producer, rank) && shares.has(0, lane) ? 1u : 0u;
      });
      part.enter(false);
      for (uint32_t queue = 0; queue < queues; ++queue) {
        part.await(queue);
        if (!gives(rank)) continue;
        const std::vector<Share> mine = shares.of(0, queue);
        // The own block last: nobody waits for it. Rotated, so that no rank is hit by all.
        for (uint32_t i = 1; i <= count; ++i) {
          const uint32_t taker = (rank + i) % count;
          if (!takes(taker)) continue;
          const Post done = part.to(taker, queue);
          for (size_t each = 0; each < mine.size(); ++each) {
            const bool posts = taker != rank && each + 1 == mine.size();
            part.copy(queue, shares.region(mine[each], in_ + rank, given_at(taker), kRead),
                      shares.region(mine[each], out_ + taker, taken_at(rank), kWrite), false, {},
                      posts ? std::span(&done, 1) : std::span<const Post>(), hint,
                      /*posts_in_order=*/each > 0);
          }
        }
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan one_shot(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const uint32_t staging = layout_.add_workspace(BufferAccess::kMapped, in_bytes(), 2);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, 0, [](uint32_t, uint32_t) { return 0u; });
      if (gives(rank)) {
        part.copy(0, flat(in_ + rank, 0, in_bytes(), kRead),
                  flat(staging + rank, 0, in_bytes(), kWrite), false, {}, {}, kHandOver);
      }
      part.enter(/*after_all=*/gives(rank));
      part.await(0);
      for (uint32_t giver = 0; takes(rank) && giver < layout_.ranks(); ++giver) {
        if (!gives(giver)) continue;
        const Region block = giver == rank
                                 ? from(giver, rank, whole())
                                 : flat(staging + giver, given_at(rank), block_bytes_, kRead);
        part.copy(0, block, to(giver, rank, whole()));
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan stream(Ranks ranks) {
    const bool direct_puts = layout_.call().symmetric_out;
    add_operands(layout_.operand_access(direct_puts));
    const Pipe pipe(
        layout_,
        {.block = [&](uint32_t giver) { return gives(giver) ? whole() : Slice{}; },
         .flows = [&](uint32_t giver, uint32_t taker) { return flows(giver, taker); },
         .from = [&](uint32_t giver, uint32_t taker,
                     Slice piece) { return from(giver, taker, piece); },
         .to = [&](uint32_t giver, uint32_t taker, Slice piece) { return to(giver, taker, piece); },
         .only_source = scatters_ ? std::optional(root_) : std::nullopt,
         .only_owner = gathers_ ? std::optional(root_) : std::nullopt,
         .direct = direct_puts});
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, pipe.lane_count(),
                [&](uint32_t producer, uint32_t lane) { return pipe.posts(rank, producer, lane); });
      part.enter(false);
      part.await(0);
      if (gives(rank) && takes(rank))
        part.copy(0, from(rank, rank, whole()), to(rank, rank, whole()));
      pipe.write(part);
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Layout layout_;
  const uint32_t root_;
  const bool gathers_, scatters_;
  const uint64_t block_bytes_;
  uint32_t in_ = 0, out_ = 0;
};

}  // namespace

Result<Plan> plan_alltoall(const OpDesc& op, const Target& target, Ranks ranks) {
  return Blocks(op, target).plan(ranks);
}

Result<Plan> plan_gather(const OpDesc& op, const Target& target, Ranks ranks) {
  return Blocks(op, target).plan(ranks);
}

Result<Plan> plan_scatter(const OpDesc& op, const Target& target, Ranks ranks) {
  return Blocks(op, target).plan(ranks);
}

}  // namespace sk::algo
