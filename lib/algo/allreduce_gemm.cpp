// GEMM, then all-reduce, overlapped: every rank first computes the tiles that its peers own and
// leaves them as partial tiles, then its own tiles, whose epilogue adds the peers' partials in rank
// order and stores the rounded sum. By then the peers' partials have long arrived, so the reduction
// hides behind the products, and no pass over C is added.
//
// direct   (C mapped)   the epilogue stores into every rank's C
// staged   (else)       it stores into result tiles, which each rank copies to its C; where nothing
//                       is mapped, partials and results travel as puts, which are one thread's
//                       business: queue 0 puts what the others have made, a round of tiles later
//
// Ranks of several hosts have one more form (allreduce_gemm_hosts.cpp).
//
// Source of the scheme: the fused two-process prototype behind the project's performance notes.
#include <algorithm>

#include "lib/algo/ops.h"
#include "lib/algo/product.h"
#include "lib/algo/two_level.h"
#include "lib/op/tile_layout.h"

namespace sk::algo {
namespace {

class AllreduceGemm {
 public:
  AllreduceGemm(const OpDesc& desc, const Target& target)
      : layout_(desc, target),
        op_(gemm_call(desc)),
        tiles_(target, op_.m, op_.n),
        factors_(layout_, op_) {
    blocks_ = target.mapped ? 1 : kPutBlocks;
    queues_ =
        std::clamp<uint32_t>(target.workers, 1, std::max(1u, tiles_.count() / layout_.ranks()));
    const uint32_t shared = target.mapped ? 0 : 2 * blocks_;  // Lanes, whatever queues there are.
    const uint32_t per_queue = (target.mapped ? 2 : 1) + (packs_by_all(op_, target) ? 1 : 0);
    const uint32_t lanes = layout_.lanes_max() - 1;
    queues_ = std::clamp<uint32_t>((lanes - std::min(lanes, shared)) / per_queue, 1, queues_);
    direct_ = target.world_size == 1 || (target.mapped && op_.symmetric_out);
    if (!target.mapped) {
      put_bytes_ = put_bytes_of(target);
      const uint64_t widest = std::max(sum_element_bytes(), out_element_bytes());
      tile_posts_ = uint32_t((slot_elements() * widest - 1) / put_bytes_ + 1);
    }
    factors_.pack_by(queues_, /*first_lane=*/2 * groups() + made_lanes());
    add_buffers();
  }

  Plan plan(Ranks ranks) {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  // Tiles that are stored are counted per producing queue, each one behind the ones before
  // (posts_in_order), so that a tile is begun while the one before is stored. Tiles that are put
  // arrive in any order: they are counted in blocks, and a block is waited for as a whole. A tile
  // that is put counts as many as the puts that the largest one takes: a smaller one's last put
  // makes up for those it lacks. A group is a queue or a block. Lanes: partial tiles for this rank
  // by group; finished tiles of the producer's by group; tiles for queue 0 to put, by the own queue
  // that has made them; those of B, which the rank packs for itself.
  uint32_t groups() const { return blocks_ == 1 ? queues_ : blocks_; }
  uint32_t partial_lane(uint32_t group) const { return group; }
  uint32_t done_lane(uint32_t group) const { return groups() + group; }
  bool puts_for_others() const {
    return !layout_.target().mapped && layout_.ranks() > 1 && queues_ > 1;
  }
  uint32_t made_lanes() const { return puts_for_others() ? queues_ - 1 : 0; }
  uint32_t made_lane(uint32_t queue) const { return 2 * groups() + queue - 1; }
  // Of all owners' tiles, those of one queue.
  uint32_t tiles_by(uint32_t queue) const {
    uint64_t tiles = 0;
    for (uint32_t owner = 0; owner < layout_.ranks(); ++owner) {
      const uint64_t count = tiles_of(owner).count;
      tiles += count > queue ? (count - queue - 1) / queues_ + 1 : 0;
    }
    return uint32_t(tiles);
  }

  uint32_t group_of(uint32_t owner, uint64_t t) const {
    return uint32_t(blocks_ == 1 ? t % queues_ : t * blocks_ / tiles_of(owner).count);
  }
  // Of the tiles of `owner`, those in `group`.
  uint32_t tiles_in(uint32_t owner, uint32_t group) const {
    const uint64_t count = tiles_of(owner).count;
    if (blocks_ == 1) return uint32_t(count > group ? (count - group - 1) / queues_ + 1 : 0);
    const auto first = [&](uint64_t block) { return (block * count + blocks_ - 1) / blocks_; };
    return uint32_t(first(group + 1) - first(group));
  }
  // What a wait for tile `t` of `owner` needs of its group.
  uint32_t tiles_until(uint32_t owner, uint64_t t) const {
    return blocks_ == 1 ? uint32_t(t / queues_) + 1 : tiles_in(owner, group_of(owner, t));
  }

  uint64_t out_element_bytes() const { return dtype_bytes(op_.out_dtype); }
  uint64_t sum_element_bytes() const { return op_.dtype == DType::kF64 ? 8 : 4; }
  // Slots are as large as a full tile, rounded up to whole blocks of the tile kernels (64 x 64).
  uint64_t slot_elements() const {
    return align_up(std::min<uint64_t>(layout_.target().tile_m, uint64_t(op_.m)), 64) *
           align_up(std::min<uint64_t>(layout_.target().tile_n, uint64_t(op_.n)), 64);
  }
  Slice tiles_of(uint32_t owner) const {
    return slice_of(tiles_.count(), layout_.ranks(), owner, 1);
  }

  void add_buffers() {
    a_ = factors_.add_a(BufferAccess::kLocal);
    c_ = factors_.add_c(direct_ ? layout_.operand_access(op_.symmetric_out) : BufferAccess::kLocal,
                        uint64_t(op_.m));
    factors_.add_b();
    if (layout_.ranks() == 1) return;
    const uint64_t partial_bytes = slot_elements() * sum_element_bytes();
    if (layout_.target().mapped) {
      partials_ = layout_.add_workspace(BufferAccess::kMapped, tiles_.count() * partial_bytes);
    } else {
      outgoing_ = layout_.add_workspace(BufferAccess::kLocal, tiles_.count() * partial_bytes);
      inboxes_ = layout_.add_inboxes(BufferAccess::kPutOnly, tiles_of(0).count * partial_bytes,
                                     layout_.ranks());
    }
    if (!direct_) {
      results_ = layout_.add_workspace(layout_.inbox_access(),
                                       tiles_.count() * slot_elements() * out_element_bytes());
    }
  }

  Region result_region(uint32_t rank, const Tile& tile, RegionAccess access,
                       uint32_t buffer_count = 1) const {
    const uint64_t es = out_element_bytes();
    return {tile.index * slot_elements() * es,
            tile.cols * es,
            tile.cols * es,
            uint32_t(tile.rows),
            results_ + rank,
            buffer_count,
            access};
  }
  Region result_bytes(uint32_t rank, const Tile& tile, RegionAccess access) const {
    const uint64_t es = out_element_bytes();
    return flat(results_ + rank, tile.index * slot_elements() * es, tile.rows * tile.cols * es,
                access);
  }
  // Of its slot, a tile that is put takes what it fills.
  Region partial(uint32_t buffer, uint64_t slot, const Tile& tile, RegionAccess access,
                 uint32_t count = 1) const {
    const uint64_t apart = slot_elements() * sum_element_bytes();
    const uint64_t bytes = layout_.target().mapped
                               ? apart
                               : partial_tile_bytes(tile.rows, tile.cols, sum_element_bytes());
    return flat(buffer, slot * apart, bytes, access, count);
  }

  RankPlan part_of(uint32_t rank) const {
    Part part(layout_, rank, queues_, 2 * groups() + made_lanes() + factors_.lane_count(),
              [&](uint32_t producer, uint32_t lane) { return posts(rank, producer, lane); });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues_; ++queue) {
      part.await(queue);
      factors_.pack(part, queue);  // Behind await: signals move only in agreed runs.
    }
    Outbox outbox(queues_);
    for (uint32_t i = 1; i < layout_.ranks(); ++i) {
      const uint32_t owner = (rank + i) % layout_.ranks();
      for (uint64_t t = 0; t < tiles_of(owner).count; ++t) compute_for_peer(part, outbox, owner, t);
    }
    // Own tiles wait for those of peers, which wait for these.
    put_until(part, outbox, outbox.round + 1);
    for (uint64_t t = 0; t < tiles_of(rank).count; ++t) compute_own(part, outbox, t);
    put_until(part, outbox, outbox.round + 1);
    if (!direct_) {
      for (uint32_t i = 0; i < layout_.ranks(); ++i)
        take_results(part, (rank + i) % layout_.ranks());
    }
    return part.finish();
  }

  uint32_t posts(uint32_t rank, uint32_t producer, uint32_t lane) const {
    if (lane >= 2 * groups() + made_lanes()) return producer == rank ? factors_.posts(lane) : 0;
    if (lane >= 2 * groups()) return producer == rank ? tiles_by(lane - 2 * groups() + 1) : 0;
    const uint32_t group = lane % groups();
    if (producer == rank) {
      // The own finished tiles: who copies them out may be another queue.
      const bool tells = lane >= groups() && !direct_ && !puts_for_others();
      return tells ? tile_posts_ * tiles_in(rank, group) : 0;
    }
    return tile_posts_ * (lane < groups() ? tiles_in(rank, group) : tiles_in(producer, group));
  }

  void gemm(Part& part, uint32_t queue, const Tile& tile, GemmEpilogue epilogue,
            std::initializer_list<Region> outputs, std::span<const Wait> waits,
            std::span<const Post> posts) const {
    const uint32_t rank = part.rank();
    const uint64_t c_bytes = uint64_t(op_.m) * op_.n * out_element_bytes();
    StoreHintParam hint =
        direct_ && c_bytes >= layout_.target().stream_bytes ? kStoreNonTemporal : kStoreDefault;
    if (epilogue == kGemmPartial) hint = layout_.target().mapped ? kHandOver : kStoreDefault;
    factors_.multiply(part, {.queue = queue,
                             .tile = tile,
                             .m = uint64_t(op_.m),
                             .a = factors_.a(a_ + rank, factors_.a_pitch(), tile.row0, tile.rows),
                             .epilogue = epilogue,
                             .hint = hint,
                             .outputs = outputs,
                             .waits = waits,
                             .posts = posts});
  }

  // Rows that queue 0 has to put: to one peer, or to all, behind tile `number` of `queue`.
  struct Passing {
    uint32_t queue, number, round;
    Region src;
    std::vector<std::pair<Region, Post>> to;
  };
  struct Outbox {
    explicit Outbox(uint32_t queues) : made(queues) {}
    std::vector<uint32_t> made;  // Tiles, by queue.
    uint32_t round = 0;          // Of tiles that the queues make at one time; queue 0 begins one.
    std::vector<Passing> passing;
  };
  // Behind the tile that `queue` made last. Where it is queue 0's turn, those of the round before
  // go out, which the other queues have made meanwhile.
  void put_later(Part& part, Outbox& outbox, uint32_t queue, const Region& src,
                 std::vector<std::pair<Region, Post>> to) const {
    if (queue == 0) ++outbox.round;
    outbox.passing.push_back({queue, ++outbox.made[queue], outbox.round, src, std::move(to)});
    if (queue == 0 || !puts_for_others())
      put_until(part, outbox, outbox.round + (puts_for_others() ? 0 : 1));
  }
  // What was made in rounds before `round`.
  void put_until(Part& part, Outbox& outbox, uint32_t round) const {
    for (const Passing& each : outbox.passing) {
      if (each.round >= round) continue;
      if (each.queue != 0) {
        const Wait made = part.from(part.rank(), made_lane(each.queue), each.number);
        part.nop(0, {&made, 1});
      }
      bool first = true;
      for (const auto& [dst, post] : each.to) {
        put_row(part, 0, each.src, dst, post, first, put_bytes_);
        first = false;
      }
    }
    std::erase_if(outbox.passing, [&](const Passing& each) { return each.round < round; });
  }
  std::vector<Post> made_by(const Part& part, uint32_t queue) const {
    if (queue == 0 || !puts_for_others()) return {};
    return {part.to(part.rank(), made_lane(queue))};
  }

  void compute_for_peer(Part& part, Outbox& outbox, uint32_t owner, uint64_t t) const {
    const uint32_t rank = part.rank(), queue = uint32_t(t % queues_);
    const Tile piece = tiles_[uint32_t(tiles_of(owner).begin + t)];
    const Post arrived = part.to(owner, partial_lane(group_of(owner, t)), tile_posts_);
    if (layout_.target().mapped) {
      return gemm(part, queue, piece, kGemmPartial,
                  {partial(partials_ + rank, piece.index, piece, kWrite)}, {}, {&arrived, 1});
    }
    gemm(part, queue, piece, kGemmPartial, {partial(outgoing_ + rank, piece.index, piece, kWrite)},
         {}, made_by(part, queue));
    put_later(part, outbox, queue, partial(outgoing_ + rank, piece.index, piece, kRead),
              {{partial(inboxes_ + owner * layout_.ranks() + rank, t, piece, kWrite), arrived}});
  }

  void compute_own(Part& part, Outbox& outbox, uint64_t t) const {
    const uint32_t rank = part.rank(), ranks = layout_.ranks(), queue = uint32_t(t % queues_);
    const Tile piece = tiles_[uint32_t(tiles_of(rank).begin + t)];
    if (ranks == 1) return gemm(part, queue, piece, kGemmStore, {factors_.c(c_, piece, 1)}, {}, {});
    const uint32_t group = group_of(rank, t);
    std::vector<Wait> waits;
    for (const uint32_t peer : part.peers()) {
      waits.push_back(part.from(peer, partial_lane(group), tile_posts_ * tiles_until(rank, t)));
    }
    const bool mapped = layout_.target().mapped;
    const Region partials = mapped ? partial(partials_, piece.index, piece, kRead, ranks)
                                   : partial(inboxes_ + rank * ranks, t, piece, kRead, ranks);
    std::vector<Post> done = part.to_all_peers(done_lane(group));
    if (direct_) {
      return gemm(part, queue, piece, kGemmReduce, {partials, factors_.c(c_, piece, ranks)}, waits,
                  done);
    }
    const Post own = part.to(rank, done_lane(group), tile_posts_);
    if (mapped) {
      done.push_back(own);
      return gemm(part, queue, piece, kGemmReduce,
                  {partials, result_region(0, piece, kWrite, ranks)}, waits, done);
    }
    std::vector<Post> told = made_by(part, queue);
    if (!puts_for_others()) told.push_back(own);
    gemm(part, queue, piece, kGemmReduce, {partials, result_region(rank, piece, kWrite)}, waits,
         told);
    std::vector<std::pair<Region, Post>> to;
    for (const uint32_t peer : part.peers()) {
      to.emplace_back(result_bytes(peer, piece, kWrite),
                      part.to(peer, done_lane(group), tile_posts_));
    }
    put_later(part, outbox, queue, result_bytes(rank, piece, kRead), std::move(to));
  }

  void take_results(Part& part, uint32_t owner) const {
    for (uint64_t t = 0; t < tiles_of(owner).count; ++t) {
      const uint32_t queue = uint32_t(t % queues_);
      const Tile piece = tiles_[uint32_t(tiles_of(owner).begin + t)];
      const Wait done =
          part.from(owner, done_lane(group_of(owner, t)), tile_posts_ * tiles_until(owner, t));
      // What is put the queue itself has made.
      const bool own = puts_for_others() && owner == part.rank();
      part.copy(queue, result_region(part.rank(), piece, kRead),
                factors_.c(c_ + part.rank(), piece, 1), own,
                own ? std::span<const Wait>() : std::span(&done, 1));
    }
  }

  Layout layout_;
  const GemmCall op_;
  const Tiles tiles_;
  Factors factors_;
  static constexpr uint32_t kPutBlocks = 8;
  uint32_t queues_ = 1, blocks_ = 1;
  uint32_t tile_posts_ = 1;  // What the signals of one tile add up to.
  uint64_t put_bytes_ = UINT64_MAX;
  bool direct_ = false;
  uint32_t a_ = 0, c_ = 0;
  uint32_t partials_ = 0, outgoing_ = 0, inboxes_ = 0, results_ = 0;
};

}  // namespace

Result<Plan> plan_allreduce_gemm(const OpDesc& op, const Target& target, Ranks ranks) {
  if (std::optional<Plan> plan = plan_in_levels(op, target, ranks)) return std::move(*plan);
  return AllreduceGemm(op, target).plan(ranks);
}

// All ranks' workers share the tiles of one C, or, along hosts, those of each rank do.
Product allreduce_gemm_product(const OpDesc& op, const Target& target) {
  const GemmCall call = gemm_call(op);
  const bool along = choose_levels(op, target).levels == Levels::kAlongHosts;
  return product_of(call,
                    along ? tiles_along_hosts(call, target) : target.world_size * target.workers);
}

}  // namespace sk::algo
