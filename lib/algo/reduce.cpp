// Reduce: the root joins all inputs. Direct (it reads them where they are), one-shot through
// staging, or a ring of puts to it.
#include "lib/algo/ops.h"
#include "lib/algo/ring.h"
#include "lib/algo/shares.h"

namespace sk::algo {
namespace {

class Reduce {
 public:
  Reduce(const OpDesc& op, const Target& target)
      : layout_(op, target),
        call_(layout_.call()),
        root_(uint32_t(call_.root)),
        bytes_(uint64_t(call_.count) * layout_.element_bytes()) {}

  Result<Plan> plan(Ranks ranks) {
    if (layout_.one_shot(bytes_, call_.symmetric_in)) return one_shot(ranks);
    if (layout_.target().mapped && call_.symmetric_in) return direct(ranks);
    return stream(ranks);
  }

 private:
  void add_operands(BufferAccess in_access) {
    in_ = layout_.add_operand(BufferKind::kInput, in_access, 0, bytes_);
    out_ = layout_.add_operand(BufferKind::kOutput, BufferAccess::kLocal, 1, bytes_);
  }
  Region piece(uint32_t buffer, Slice slice, RegionAccess access) const {
    const uint64_t es = layout_.element_bytes();
    return flat(buffer, slice.begin * es, slice.count * es, access);
  }
  Slice whole() const { return {0, uint64_t(call_.count)}; }

  Plan direct(Ranks ranks) {
    add_operands(layout_.operand_access(true));
    const Shares shares(layout_, whole().count, 1);
    const uint32_t queues = shares.queues();
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      // Lane q: the root's queue q has read its share of this rank's input.
      Part part(layout_, rank, queues, queues, [&](uint32_t producer, uint32_t lane) {
        return producer == root_ && rank != root_ && shares.has(0, lane) ? 1u : 0u;
      });
      part.enter(false);
      for (uint32_t queue = 0; queue < queues; ++queue) {
        part.await(queue);
        if (rank != root_) continue;
        const std::vector<Share> mine = shares.of(0, queue);
        for (size_t i = 0; i < mine.size(); ++i) {
          const bool is_last = i + 1 == mine.size();
          part.reduce(queue,
                      {shares.region(mine[i], in_, 0, kRead, layout_.ranks()),
                       shares.region(mine[i], out_ + rank, 0, kWrite)},
                      call_.dtype, call_.dtype, call_.redop, false, {},
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
    const uint32_t staging = layout_.add_workspace(BufferAccess::kMapped, bytes_, 2);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) {
      Part part(layout_, rank, 1, 0, [](uint32_t, uint32_t) { return 0u; });
      if (rank != root_) {
        part.copy(0, piece(in_ + rank, whole(), kRead), piece(staging + rank, whole(), kWrite),
                  false, {}, {}, kHandOver);
      }
      part.enter(/*after_all=*/rank != root_);
      part.await(0);
      if (rank == root_) {
        part.reduce_ranks(0, piece(staging, whole(), kRead), piece(in_ + rank, whole(), kRead),
                          piece(out_ + rank, whole(), kWrite), call_.dtype, call_.redop, false, {},
                          {}, kStoreDefault);
      }
      parts.push_back(part.finish());
    }
    return layout_.finish(std::move(parts));
  }

  Plan stream(Ranks ranks) {
    add_operands(BufferAccess::kLocal);
    const Ring ring(layout_, {.ranks = layout_.ranks(), .only_owner = root_}, whole().count,
                    /*first_lane=*/0);
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(stream_part(ring, rank));
    return layout_.finish(std::move(parts));
  }

  RankPlan stream_part(const Ring& ring, uint32_t rank) const {
    const uint64_t count = whole().count;
    Part part(layout_, rank, 1, ring.lane_count(), [&](uint32_t producer, uint32_t lane) {
      if (producer == rank) return 0u;
      return ring.posts(lane, rank == root_ ? count : 0, producer == root_ ? count : 0);
    });
    part.enter(false);
    part.await(0);
    for (uint32_t chunk = 0; chunk < ring.chunks(count); ++chunk) {
      if (rank == root_) {
        join(part, ring, chunk);
      } else {
        ring.put(part, root_, chunk, piece(in_ + rank, ring.chunk(whole(), chunk), kRead), false);
      }
    }
    return part.finish();
  }

  void join(Part& part, const Ring& ring, uint32_t chunk) const {
    const Slice its = ring.chunk(whole(), chunk);
    std::vector<Wait> waits;
    std::vector<Post> credits;
    for (const uint32_t peer : part.peers()) {
      waits.push_back(ring.arrival(part, peer, chunk));
      if (const auto credit = ring.credit(part, peer, chunk, whole().count))
        credits.push_back(*credit);
    }
    part.reduce_ranks(0, ring.slot(root_, 0, chunk, its.count, kRead),
                      piece(in_ + root_, its, kRead), piece(out_ + root_, its, kWrite), call_.dtype,
                      call_.redop, false, waits, credits, kTakeInputs);
  }

  Layout layout_;
  const VectorCall call_;
  const uint32_t root_;
  const uint64_t bytes_;
  uint32_t in_ = 0, out_ = 0;
};

}  // namespace

Result<Plan> plan_reduce(const OpDesc& op, const Target& target, Ranks ranks) {
  return Reduce(op, target).plan(ranks);
}

}  // namespace sk::algo
