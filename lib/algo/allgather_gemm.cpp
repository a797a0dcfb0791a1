// All-gather of A, then GEMM, overlapped: every rank first computes the tiles of its own shard of
// A, then those of rank + 1 and so on around the ring, each as soon as its rows of A are there. C
// is the rank's own, so nothing but A crosses ranks, and it is read where it lies:
//
// direct  (A mapped)     tiles read the peer's A itself
// staged  (else mapped)  each rank copies its A to its workspace, in chunks that peers wait for
// pushed  (else)         each rank puts its A into an inbox at every peer, in chunks; to another
// host
//                        whose ranks are several it does so once, and who gets it there puts it on
//
// A chunk is some rows of tiles. Before a run ends all peers have told that they are done with the
// rank's A, but for puts, which nobody reads at their source any more.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "lib/algo/ops.h"
#include "lib/algo/product.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

class AllgatherGemm {
 public:
  AllgatherGemm(const OpDesc& desc, const Target& target)
      : layout_(desc, target),
        op_(gemm_call(desc)),
        hosts_(target),
        relays_(choose_levels(desc, target).levels == Levels::kOncePerHost),
        tiles_(target, op_.m, op_.n),
        factors_(layout_, op_) {
    find_passed_on();
    if (layout_.ranks() > 1 && op_.k > 0) {
      way_ = !target.mapped ? Way::kPuts : op_.symmetric_in ? Way::kDirect : Way::kStaged;
    }
    queues_ = std::clamp<uint32_t>(target.workers, 1, layout_.ranks() * tiles_.count());
    const uint32_t per_queue = 1 + (packs_by_all(op_, target) ? 1 : 0);
    const uint32_t lanes = layout_.lanes_max() - 1;
    queues_ =
        std::clamp<uint32_t>((lanes - std::min(lanes, 1 + passed_on_max_)) / per_queue, 1, queues_);
    if (way_ == Way::kStaged || way_ == Way::kPuts) {
      const uint32_t left = lanes - std::min(lanes, queues_ * per_queue);
      chunks_ = std::clamp<uint32_t>(left / (1 + passed_on_max_), 1,
                                     std::min(tiles_.rows(), chunks_wanted()));
    }
    put_bytes_ = put_bytes_of(target);
    factors_.pack_by(queues_, /*first_lane=*/chunk_lanes() + queues_);
    add_buffers();
  }

  Plan plan(Ranks ranks) {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  enum class Way : uint8_t { kNone, kDirect, kStaged, kPuts };
  static constexpr uint32_t kChunks = 8;

  // Lanes: the producer's chunks, then those of each rank for which it puts them on; a queue of the
  // producer's is done with this rank's A; those of B, which the rank packs for itself.
  uint32_t chunk_lanes() const { return chunks_ * (1 + passed_on_max_); }
  uint32_t done_lane(uint32_t queue) const { return chunk_lanes() + queue; }

  // Who has A of `source` for `rank`: itself, or a rank of that one's host.
  uint32_t giver(uint32_t source, uint32_t rank) const {
    if (!relays_ || hosts_.of(source) == hosts_.of(rank)) return source;
    const std::vector<uint32_t>& on = hosts_.on(hosts_.of(rank));
    const uint32_t first = on[(hosts_.place(source) + hosts_.of(source)) % on.size()];
    return first == rank ? source : first;
  }
  // Whose A each rank puts on, nearer ones first.
  void find_passed_on() {
    passed_on_.resize(layout_.ranks());
    for (uint32_t rank = 0; relays_ && rank < layout_.ranks(); ++rank) {
      if (hosts_.size(hosts_.of(rank)) == 1) continue;
      for (uint32_t i = 1; i < layout_.ranks(); ++i) {
        const uint32_t source = (rank + i) % layout_.ranks();
        if (hosts_.of(source) != hosts_.of(rank) && giver(source, rank) == source)
          passed_on_[rank].push_back(source);
      }
      passed_on_max_ = std::max(passed_on_max_, uint32_t(passed_on_[rank].size()));
    }
  }
  // From `rank`: the first lane of A of `source`.
  uint32_t lane_of(uint32_t rank, uint32_t source) const {
    if (rank == source) return 0;
    const std::vector<uint32_t>& sources = passed_on_[rank];
    const auto number = std::ranges::find(sources, source) - sources.begin();
    return chunks_ * (1 + uint32_t(number));
  }

  // Each queue copies some. Rows of A that is turned lie apart, so that one row of puts has all.
  uint32_t chunks_wanted() const {
    if (way_ == Way::kPuts) return op_.transpose_a ? 1 : kChunks;
    return std::max(kChunks, queues_);
  }
  Slice chunk(uint32_t number) const {
    return slice_of(uint64_t(op_.m), chunks_, number, layout_.target().tile_m);
  }
  uint32_t chunk_of(const Tile& tile) const {
    uint32_t number = 0;
    while (chunk(number).begin + chunk(number).count <= tile.row0) ++number;
    return number;
  }

  // A copied, line after line.
  uint64_t line_bytes() const {
    return uint64_t(op_.transpose_a ? op_.m : op_.k) * layout_.element_bytes();
  }
  uint64_t shard_bytes() const {
    return uint64_t(op_.m) * uint64_t(op_.k) * layout_.element_bytes();
  }
  bool is_dense() const { return factors_.a_pitch() == line_bytes(); }

  void add_buffers() {
    const bool direct = way_ == Way::kDirect;
    a_ = factors_.add_a(direct ? layout_.operand_access(true) : BufferAccess::kLocal);
    c_ = factors_.add_c(BufferAccess::kLocal, layout_.ranks() * uint64_t(op_.m));
    factors_.add_b();
    if (way_ == Way::kStaged || (way_ == Way::kPuts && !is_dense())) {
      copy_ = layout_.add_workspace(
          way_ == Way::kStaged ? BufferAccess::kMapped : BufferAccess::kLocal, shard_bytes());
    }
    if (way_ == Way::kPuts) {
      inboxes_ = layout_.add_inboxes(BufferAccess::kPutOnly, shard_bytes(), layout_.ranks());
    }
  }

  uint32_t queue_of(uint32_t rank, uint32_t source, uint32_t t) const {
    const uint64_t shard = (source + layout_.ranks() - rank) % layout_.ranks();
    return uint32_t((shard * tiles_.count() + t) % queues_);
  }
  // The last tile of `source` that a queue of `rank` has, or none.
  std::optional<uint32_t> last_of(uint32_t rank, uint32_t source, uint32_t queue) const {
    for (uint32_t t = tiles_.count(); t > 0 && tiles_.count() - t < queues_; --t) {
      if (queue_of(rank, source, t - 1) == queue) return t - 1;
    }
    return std::nullopt;
  }

  uint32_t posts(uint32_t rank, uint32_t producer, uint32_t lane) const {
    if (lane >= chunk_lanes() + queues_) return producer == rank ? factors_.posts(lane) : 0;
    if (producer == rank) return 0;
    if (lane < chunks_) {
      return way_ != Way::kPuts ? 1 : giver(producer, rank) == producer ? puts_of(chunk(lane)) : 0;
    }
    if (lane < chunk_lanes()) {
      const std::vector<uint32_t>& sources = passed_on_[producer];
      const uint32_t number = lane / chunks_ - 1;
      const bool gives = hosts_.of(producer) == hosts_.of(rank) && number < sources.size();
      return gives ? puts_of(chunk(lane % chunks_)) : 0;
    }
    const bool told = way_ == Way::kDirect || way_ == Way::kStaged;
    return told && last_of(producer, rank, lane - chunk_lanes()) ? 1 : 0;
  }

  RankPlan part_of(uint32_t rank) const {
    Part part(layout_, rank, queues_, chunk_lanes() + queues_ + factors_.lane_count(),
              [&](uint32_t producer, uint32_t lane) { return posts(rank, producer, lane); });
    part.enter(false);
    for (uint32_t queue = 0; queue < queues_; ++queue) part.await(queue);
    for (uint32_t each = 0; each < chunks_; ++each) pass_on(part, each);
    for (uint32_t queue = 0; queue < queues_; ++queue) factors_.pack(part, queue);
    std::set<std::array<uint32_t, 3>> known;  // Queue, source, chunk: waited for already.
    const std::vector<uint32_t>& sources = passed_on_[rank];
    const HostByHost order(layout_.target(), rank);
    for (uint32_t i = 0; i < layout_.ranks(); ++i) {
      const uint32_t source = relays_ ? order.rank_at(i) : (rank + i) % layout_.ranks();
      for (uint32_t t = 0; t < tiles_.count(); ++t) {
        const Tile tile = tiles_[t];
        const uint32_t queue = queue_of(rank, source, t), from = chunks_ > 0 ? chunk_of(tile) : 0;
        const bool waits =
            source != rank && chunks_ > 0 && known.insert(std::array{queue, source, from}).second;
        multiply(part, queue, source, tile, waits ? std::optional(from) : std::nullopt);
      }
      // What has arrived behind a shard's products.
      for (uint32_t each = 0; i < sources.size() && each < chunks_; ++each) {
        put_on(part, sources[i], each);
        known.insert(std::array{0u, sources[i], each});
      }
    }
    return part.finish();
  }

  Region copied(uint32_t buffer, Slice rows) const {
    return factors_.a(buffer, line_bytes(), rows.begin, rows.count);
  }
  Region own(uint32_t rank, Slice rows) const {
    return factors_.a(a_ + rank, factors_.a_pitch(), rows.begin, rows.count);
  }
  // One behind the other, where a chunk is whole lines.
  Region bytes_of(uint32_t buffer, Slice rows, RegionAccess access) const {
    const uint64_t row = uint64_t(op_.k) * layout_.element_bytes();
    return flat(buffer, rows.begin * row, rows.count * row, access);
  }
  uint32_t puts_of(Slice rows) const {
    return uint32_t((bytes_of(0, rows, kRead).row_bytes - 1) / put_bytes_ + 1);
  }

  void pass_on(Part& part, uint32_t number) const {
    // Puts are one thread's business.
    const uint32_t rank = part.rank(), ranks = layout_.ranks(),
                   queue = way_ == Way::kPuts ? 0 : number % queues_;
    const Slice rows = chunk(number);
    if (way_ == Way::kStaged) {
      return part.copy(queue, own(rank, rows), copied(copy_ + rank, rows), false, {},
                       part.to_all_peers(number), kHandOver);
    }
    if (!is_dense()) part.copy(queue, own(rank, rows), copied(copy_ + rank, rows));
    const Region src = bytes_of(is_dense() ? a_ + rank : copy_ + rank, rows, kRead);
    bool first = !is_dense();
    for (uint32_t i = 1; i < ranks; ++i) {  // Who needs it first is the rank before this one.
      const uint32_t peer = (rank + ranks - i) % ranks;
      if (giver(rank, peer) != rank) continue;
      put_row(part, queue, src, bytes_of(inboxes_ + peer * ranks + rank, rows, kWrite),
              part.to(peer, number, puts_of(rows)), std::exchange(first, false), put_bytes_);
    }
  }

  // To the others of this host.
  void put_on(Part& part, uint32_t source, uint32_t number) const {
    const uint32_t rank = part.rank(), ranks = layout_.ranks();
    const Slice rows = chunk(number);
    const Wait arrival = part.from(source, number, puts_of(rows));
    part.nop(0, {&arrival, 1});
    for (const uint32_t peer : hosts_.on(hosts_.of(rank))) {
      if (peer == rank) continue;
      put_row(part, 0, bytes_of(inboxes_ + rank * ranks + source, rows, kRead),
              bytes_of(inboxes_ + peer * ranks + source, rows, kWrite),
              part.to(peer, lane_of(rank, source) + number, puts_of(rows)), false, put_bytes_);
    }
  }

  // The tile's rows of the A of `source`.
  Region a_of(uint32_t rank, uint32_t source, const Tile& tile) const {
    const Slice rows{tile.row0, tile.rows};
    if (source == rank || way_ == Way::kNone) return own(rank, rows);
    if (way_ == Way::kDirect) return own(source, rows);
    if (way_ == Way::kStaged) return copied(copy_ + source, rows);
    return copied(inboxes_ + rank * layout_.ranks() + source, rows);
  }

  void multiply(Part& part, uint32_t queue, uint32_t source, Tile tile,
                std::optional<uint32_t> awaited) const {
    const uint32_t rank = part.rank();
    const uint64_t m = layout_.ranks() * uint64_t(op_.m);
    std::optional<Wait> wait;
    if (awaited) {
      const uint32_t from = giver(source, rank);
      wait = part.from(from, lane_of(from, source) + *awaited,
                       way_ == Way::kPuts ? puts_of(chunk(*awaited)) : 1);
    }
    std::optional<Post> done;
    const bool tells = source != rank && (way_ == Way::kDirect || way_ == Way::kStaged);
    if (tells && last_of(rank, source, queue) == tile.index) {
      done = part.to(source, done_lane(queue));
    }
    const Region a = a_of(rank, source, tile);
    tile.row0 += source * uint64_t(op_.m);
    factors_.multiply(part, {.queue = queue,
                             .tile = tile,
                             .m = m,
                             .a = a,
                             .hint = factors_.store_hint(m),
                             .outputs = {factors_.c(c_ + rank, tile, 1)},
                             .waits = wait ? std::span(&*wait, 1) : std::span<const Wait>(),
                             .posts = done ? std::span(&*done, 1) : std::span<const Post>()});
  }

  Layout layout_;
  const GemmCall op_;
  const Hosts hosts_;
  const bool relays_;
  const Tiles tiles_;
  Factors factors_;
  std::vector<std::vector<uint32_t>> passed_on_;
  uint32_t passed_on_max_ = 0;
  Way way_ = Way::kNone;  // That A goes from rank to rank.
  uint32_t queues_ = 1, chunks_ = 0;
  uint64_t put_bytes_ = UINT64_MAX;
  uint32_t a_ = 0, c_ = 0, copy_ = 0, inboxes_ = 0;
};

}  // namespace

Result<Plan> plan_allgather_gemm(const OpDesc& op, const Target& target, Ranks ranks) {
  return AllgatherGemm(op, target).plan(ranks);
}

// A rank's workers share the tiles of one shard after the other.
Product allgather_gemm_product(const OpDesc& op, const Target& target) {
  const GemmCall call = gemm_call(op);
  return product_of(call, target.workers);
}

}  // namespace sk::algo
