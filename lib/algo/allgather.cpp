// All-gather: direct (each rank stores its block into every output), one-shot through staging, or
// a pipe of puts.
#include <algorithm>

#include "lib/algo/ops.h"
#include "lib/algo/pipe.h"
#include "lib/algo/shares.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

class Allgather {
 public:
  Allgather(const OpDesc& op, const Target& target) : layout_(op, target) {
    block_bytes_ = uint64_t(layout_.call().count) * layout_.element_bytes();
  }

  Result<Plan> plan(Ranks ranks) {
    const Target& target = layout_.target();
    if (layout_.one_shot(block_bytes_, layout_.call().symmetric_out)) return one_shot(ranks);
    if (target.mapped && layout_.call().symmetric_out) return direct(ranks);
    return stream(ranks);
  }

 private:
  void add_operands(BufferAccess out_access) {
    const uint64_t out_bytes = block_bytes_ * layout_.ranks();
    if (layout_.call().in_place) {
      out_ = layout_.add_operand(BufferKind::kInOut, out_access, 1, out_bytes);
      return;
    }
    in_ = layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, block_bytes_);
    out_ = layout_.add_operand(BufferKind::kOutput, out_access, 1, out_bytes);
  }
  // `piece` of the own block, at its source.
  Region source(uint32_t rank, Slice piece) const {
    const uint64_t es = layout_.element_bytes();
    const bool in_place = layout_.call().in_place;
    return flat(in_place ? out_ + rank : in_ + rank,
                piece.begin * es + (in_place ? rank * block_bytes_ : 0), piece.count * es, kRead);
  }
  // `piece` of the block of `from`, in the output of `rank`.
  Region place(uint32_t from, uint32_t rank, Slice piece, uint32_t buffer_count = 1) const {
    const uint64_t es = layout_.element_bytes();
    return flat(out_ + rank, from * block_bytes_ + piece.begin * es, piece.count * es, kWrite,
                buffer_count);
  }
  Slice whole() const { return {0, uint64_t(layout_.call().count)}; }

  // Runs of ranks whose outputs one task of `rank` stores: all; in place, where the own block lies
  // there already, one peer after the other, so that each goes on as soon as it can, but with
  // several queues, which store everywhere at about the same time, the ranks before and after.
  std::vector<Slice> stored_at(uint32_t rank, uint32_t queues) const {
    const uint32_t ranks = layout_.ranks();
    if (!layout_.call().in_place) return {{0, ranks}};
    std::vector<Slice> runs;
    if (queues == 1) {
      for (const uint32_t peer : peers_of(rank, ranks)) runs.push_back({peer, 1});
      return runs;
    }
    if (rank > 0) runs.push_back({0, rank});
    if (rank + 1 < ranks) runs.push_back({rank + 1, ranks - rank - 1});
    return runs;
  }

  Plan direct(Ranks ranks) {
    add_operands(layout_.operand_access(true));
    const bool in_place = layout_.call().in_place;
    const StoreHintParam hint = block_bytes_ * layout_.ranks() >= layout_.target().stream_bytes
                                    ? kStoreNonTemporal
                                    : kStoreDefault;
    const Shares shares(layout_, whole().count, 1);
    const uint32_t queues = shares.queues();
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      // Lane q: queue q of the producer has stored its share of the producer's block here.
      Part part(layout_, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
        return producer != rank && shares.has(0, lane) ? 1u : 0u;
      });
      part.enter(false);
      for (uint32_t queue = 0; queue < queues; ++queue) {
        part.await(queue);
        const std::vector<Share> mine = shares.of(0, queue);
        for (const Slice& run : stored_at(rank, queues)) {
          std::vector<Post> done;
          for (uint32_t peer = uint32_t(run.begin); peer < run.begin + run.count; ++peer)
            if (peer != rank) done.push_back(part.to(peer, queue));
          for (size_t i = 0; i < mine.size(); ++i) {
            const bool is_last = i + 1 == mine.size();
            const Region from =
                in_place ? shares.region(mine[i], out_ + rank, rank * block_bytes_, kRead)
                         : shares.region(mine[i], in_ + rank, 0, kRead);
            const Region to = shares.region(mine[i], out_ + uint32_t(run.begin),
                                            rank * block_bytes_, kWrite, uint32_t(run.count));
            part.copy(queue, from, to, false, {}, is_last ? done : std::vector<Post>(), hint,
                      /*posts_in_order=*/i > 0);
          }
        }
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan one_shot(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const uint32_t staging = layout_.add_workspace(BufferAccess::kMapped, block_bytes_, 2);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, 0, [](uint32_t, uint32_t) { return 0u; });
      part.copy(0, source(rank, whole()), flat(staging + rank, 0, block_bytes_, kWrite), false, {},
                {}, kHandOver);
      part.enter(/*after_all=*/true);
      part.await(0);
      for (uint32_t from = 0; from < layout_.ranks(); ++from) {
        if (from == rank && layout_.call().in_place) continue;
        part.copy(0, flat(staging + from, 0, block_bytes_, kRead), place(from, rank, whole()),
                  /*after_all=*/from == rank);
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan stream(Ranks ranks) {
    const bool direct_puts = layout_.call().symmetric_out;
    add_operands(layout_.operand_access(direct_puts));
    const Pipe pipe(layout_,
                    {.block = [&](uint32_t) { return whole(); },
                     .flows = [](uint32_t s, uint32_t r) { return s != r; },
                     .from = [&](uint32_t s, uint32_t, Slice piece) { return source(s, piece); },
                     .to = [&](uint32_t s, uint32_t r, Slice piece) { return place(s, r, piece); },
                     .direct = direct_puts});
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, pipe.lane_count(),
                [&](uint32_t producer, uint32_t lane) { return pipe.posts(rank, producer, lane); });
      part.enter(false);
      part.await(0);
      if (!layout_.call().in_place) part.copy(0, source(rank, whole()), place(rank, rank, whole()));
      pipe.write(part);
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Layout layout_;
  uint64_t block_bytes_;
  uint32_t in_ = 0, out_ = 0;
};

}  // namespace

Result<Plan> plan_allgather(const OpDesc& op, const Target& target, Ranks ranks) {
  if (std::optional<Plan> plan = plan_in_levels(op, target, ranks)) return std::move(*plan);
  return Allgather(op, target).plan(ranks);
}

}  // namespace sk::algo
