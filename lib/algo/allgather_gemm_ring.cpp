// All-gather of A, then GEMM, of many ranks: shards of A go around a ring, host by host, each rank
// passing on what has come from the one before it, and multiplies a shard while it has it. Three
// shards fit into the inbox, however many there are.
//
// A shard is cut into a few chunks of whole rows of tiles. The first queue puts them on and tells
// the sender when a slot is free: once its own put has read it and all queues have multiplied it.
// It asks for that a shard later, behind the put of the same chunk of the next one, so that shards
// go on while others are multiplied. The chunk that a rank puts as its i-th is sent in step 2i; the
// i-th that comes gives its slot back in step 2(i + chunks of a shard) + 1.
#include <algorithm>
#include <utility>

#include "lib/algo/hosts.h"
#include "lib/algo/large_worlds.h"
#include "lib/algo/neighbours.h"
#include "lib/algo/product.h"

namespace sk::algo {
namespace {

constexpr uint32_t kChunksMax = 8, kShards = 3;  // Of a shard; in an inbox.

// Rows of a chunk: whole rows of tiles. 0 where a put cannot carry as many.
uint64_t chunk_rows(const GemmCall& op, const Target& target) {
  const uint64_t line = uint64_t(op.k) * dtype_bytes(op.dtype), m = uint64_t(op.m);
  if (line == 0) return m;
  const uint64_t least = align_up((m + kChunksMax - 1) / kChunksMax, target.tile_m);
  return std::min(least, m) * line <= target.put_bytes_max ? std::min(least, m) : 0;
}

class GatherGemmRing {
 public:
  GatherGemmRing(const OpDesc& desc, const Target& target)
      : layout_(desc, target),
        op_(gemm_call(desc)),
        order_(target, 0),
        tiles_(target, op_.m, op_.n),
        factors_(layout_, op_),
        rows_(chunk_rows(op_, target)),
        chunks_(op_.k > 0 ? uint32_t((uint64_t(op_.m) + rows_ - 1) / rows_) : 0) {
    // Of the own rank's signals: one for each queue, and those of B.
    const uint32_t per_queue = 1 + (packs_by_all(op_, target) ? 1 : 0);
    const uint32_t lanes = (layout_.lanes_max() - 2) / per_queue;
    queues_ =
        std::clamp<uint32_t>(std::min(target.workers, lanes), 1, layout_.ranks() * tiles_.count());
    factors_.pack_by(queues_, /*first_lane=*/queues_);
    a_ = factors_.add_a(BufferAccess::kLocal);
    c_ = factors_.add_c(BufferAccess::kLocal, layout_.ranks() * uint64_t(op_.m));
    factors_.add_b();
    if (chunks_ == 0) return;
    if (!is_dense()) copy_ = layout_.add_workspace(BufferAccess::kLocal, uint64_t(op_.m) * line());
    const uint64_t slot_bytes = align_up(rows_ * line(), kWorkspaceAlign);
    inbox_ = {layout_.add_workspace(BufferAccess::kPutOnly, kShards * chunks_ * slot_bytes),
              kShards * chunks_, slot_bytes};
    tiles_of_.resize(chunks_);
    for (uint32_t t = 0; t < tiles_.count(); ++t) tiles_of_[tiles_[t].row0 / rows_].push_back(t);
  }

  uint64_t chunk_count() const { return uint64_t(layout_.ranks() - 1) * chunks_; }

  std::vector<Flow> flows(uint32_t rank) const {
    if (chunks_ == 0) return {};
    return {from(order_.before(rank, 1)), from(rank)};
  }

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  uint64_t line() const { return uint64_t(op_.k) * layout_.element_bytes(); }
  bool is_dense() const { return factors_.a_pitch() == line(); }
  uint32_t passed() const { return (layout_.ranks() - 1) * chunks_; }  // Chunks of a rank.
  Slice rows(uint32_t i) const {
    const uint64_t begin = i % chunks_ * rows_;
    return {begin, std::min(rows_, uint64_t(op_.m) - begin)};
  }
  // Whose shard chunk `i` is of that `rank` passes on.
  uint32_t source(uint32_t rank, uint32_t i) const { return order_.before(rank, i / chunks_); }

  Flow from(uint32_t rank) const {
    Flow flow = flow_into(inbox_, rank, order_.after(rank, 1), 0);
    flow.chunks.reserve(passed());
    for (uint32_t i = 0; i < passed(); ++i) {
      const uint32_t whose = source(rank, i);
      const Content content{.operand = GemmCall::kA,
                            .first = whose,
                            .last = whose + 1,
                            .row = rows(i).begin,
                            .rows = rows(i).count,
                            .columns = uint64_t(op_.k)};
      flow.chunks.push_back({rows(i).count * line(), content, 2ull * i, 2ull * (i + chunks_) + 1});
    }
    return flow;
  }

  RankPlan part_of(uint32_t rank) const {
    const std::vector<Flow> all = flows(rank);
    // To the own rank: that a queue is done with a chunk, and what B says.
    const uint32_t own_lanes = queues_ + factors_.lane_count();
    Part part(layout_, rank, queues_, std::max(lanes_of(all), own_lanes),
              [&](uint32_t producer, uint32_t lane) {
                if (producer != rank) return posts_of(all, rank, producer, lane);
                if (lane >= queues_) return lane < own_lanes ? factors_.posts(lane) : 0;
                return lane > 0 ? told() : 0;
              });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues_; ++queue) part.await(queue);
    if (chunks_ > 0) put_own(part, all[1]);
    for (uint32_t queue = 0; queue < queues_; ++queue) {
      factors_.pack(part, queue);
      for (uint32_t t = 0; t < tiles_.count(); ++t) {
        if (t % queues_ == queue) multiply(part, queue, rank, tiles_[t], own(a_ + rank, tiles_[t]));
      }
    }
    if (chunks_ == 0) multiply_nothing(part);
    for (uint32_t i = 0; i < passed(); ++i) {
      if (i + chunks_ < passed()) pass_on(part, all[0], all[1], i);
      if (i >= chunks_) give_back(part, all[0], i - chunks_);
      take(part, all[0], i);
    }
    return part.finish();
  }

  Region own(uint32_t buffer, const Tile& tile) const {
    return factors_.a(buffer, factors_.a_pitch(), tile.row0, tile.rows);
  }

  void put_own(Part& part, const Flow& out) const {
    const uint32_t rank = part.rank();
    const auto whole = uint64_t(op_.m);
    if (!is_dense()) {
      part.copy(0, factors_.a(a_ + rank, factors_.a_pitch(), 0, whole),
                factors_.a(copy_ + rank, line(), 0, whole));
    }
    for (uint32_t i = 0; i < std::min(chunks_, passed()); ++i) {
      const Region src = flat(is_dense() ? a_ + rank : copy_ + rank, rows(i).begin * line(),
                              rows(i).count * line(), kRead);
      put_chunk(part, out, i, src, /*after_all=*/!is_dense() && i == 0);
    }
  }

  // Chunk `i` of what comes is, a shard later, one of what goes.
  void pass_on(Part& part, const Flow& in, const Flow& out, uint32_t i) const {
    const Wait arrival = arrival_of(in, i);
    put_chunk(part, out, i + chunks_, slot_of(in, i, kRead), false, &arrival);
  }

  // How often a queue tells the first one that it is done with a chunk.
  uint32_t told() const { return passed() > inbox_.slots ? passed() - inbox_.slots : 0; }

  // All queues' tiles of a chunk. The first of each queue waits for it.
  void take(Part& part, const Flow& in, uint32_t i) const {
    const uint32_t whose = source(in.from, i);
    std::vector<std::optional<Wait>> arrivals(queues_, arrival_of(in, i));
    for (const uint32_t t : tiles_of_[i % chunks_]) {
      const Tile tile = tiles_[t];
      const uint32_t queue = (whose + t) % queues_;
      Region a = factors_.a(in.inbox, line(), tile.row0 - rows(i).begin, tile.rows);
      a.offset += in.offset(i);
      multiply(part, queue, whose, tile, a, std::exchange(arrivals[queue], std::nullopt));
    }
    if (!in.has_credit(i)) return;
    for (uint32_t queue = 1; queue < queues_; ++queue) {
      const Post done = part.to(part.rank(), queue);
      part.nop(queue, maybe(arrivals[queue]), {&done, 1}, /*after_all=*/true);
    }
  }

  // The first queue's word that all are done with a chunk, and its own put of it.
  void give_back(Part& part, const Flow& in, uint32_t i) const {
    const std::optional<Post> credit = credit_of(in, i);
    if (!credit) return;
    std::vector<Wait> waits = {arrival_of(in, i)};
    for (uint32_t other = 1; other < queues_; ++other) {
      waits.push_back(part.from(part.rank(), other, i + 1));
    }
    part.nop(0, waits, maybe(credit), /*after_all=*/true);
  }

  // Without k nothing of A is read, and no shard has to come.
  void multiply_nothing(Part& part) const {
    for (uint32_t source = 0; source < layout_.ranks(); ++source) {
      for (uint32_t t = 0; t < tiles_.count() && source != part.rank(); ++t) {
        multiply(part, t % queues_, source, tiles_[t], own(a_ + part.rank(), tiles_[t]));
      }
    }
  }

  void multiply(Part& part, uint32_t queue, uint32_t whose, Tile tile, const Region& a,
                const std::optional<Wait>& wait = std::nullopt) const {
    const uint64_t m = layout_.ranks() * uint64_t(op_.m);
    tile.row0 += whose * uint64_t(op_.m);
    factors_.multiply(part, {.queue = queue,
                             .tile = tile,
                             .m = m,
                             .a = a,
                             .hint = factors_.store_hint(m),
                             .outputs = {factors_.c(c_ + part.rank(), tile, 1)},
                             .waits = maybe(wait)});
  }

  Layout layout_;
  const GemmCall op_;
  const HostByHost order_;
  const Tiles tiles_;
  Factors factors_;
  uint64_t rows_;                                // Of a chunk.
  uint32_t chunks_;                              // Of a shard.
  std::vector<std::vector<uint32_t>> tiles_of_;  // By chunk of a shard.
  uint32_t queues_ = 1;
  uint32_t a_ = 0, c_ = 0, copy_ = 0;
  Inbox inbox_;
};

}  // namespace

// Shards that are turned lie apart, row by row of a chunk.
bool allgather_gemm_ring_does(const OpDesc& op, const Target& target) {
  const GemmCall call = gemm_call(op);
  const uint32_t lanes = 2 * kShards * kChunksMax;
  return !call.transpose_a && chunk_rows(call, target) > 0 && target.edge_signals_max >= lanes;
}

Plan allgather_gemm_ring(const OpDesc& op, const Target& target, Ranks ranks) {
  return GatherGemmRing(op, target).plan(ranks);
}

uint64_t allgather_gemm_ring_chunks(const OpDesc& op, const Target& target) {
  return chunks_by<GatherGemmRing>(op, target);
}

FlowsOf allgather_gemm_ring_flows(const OpDesc& op, const Target& target) {
  return flows_by<GatherGemmRing>(op, target);
}

}  // namespace sk::algo
