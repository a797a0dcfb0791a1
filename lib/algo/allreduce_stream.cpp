// All-reduce through two rings: contributions to the owner of each slice, sums back to all.
#include <algorithm>

#include "lib/algo/allreduce_forms.h"
#include "lib/algo/ring.h"

namespace sk::algo {
namespace {

// The ring pipeline of one rank. Step c puts chunk c of every peer's slice, reduces chunk c - 1 of
// the own slice, and hands on chunk c - 2 of the sums: two steps of slack hide the hand-offs.
class StreamPart {
 public:
  StreamPart(const Layout& layout, Operands operands, const Ring& in_ring, const Ring* sum_ring,
             uint32_t rank)
      : layout_(layout),
        op_(layout.call()),
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
    part_.reduce_ranks(0, in_ring_.slot(rank, 0, chunk, piece.count, kRead),
                       own(operands_.in + rank, piece, kRead),
                       own(operands_.out + rank, piece, kWrite), op_.dtype, op_.redop, false, waits,
                       credits, kTakeInputs);
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
  const VectorCall& op_;
  Operands operands_;
  const Ring& in_ring_;
  const Ring* sum_ring_;  // Null: sums are put straight into the peers' outputs.
  Part part_;
};

}  // namespace

Plan allreduce_stream(Layout layout, Ranks ranks) {
  const VectorCall op = layout.call();
  const Operands operands =
      add_operands(layout, BufferAccess::kLocal, layout.operand_access(op.symmetric_out));
  const uint64_t longest = slice_of(op.count, layout.ranks(), 0, line_elements(op.dtype)).count;
  const Ring in_ring(layout, {layout.ranks()}, longest, /*first_lane=*/0);
  std::optional<Ring> sum_ring;
  if (!op.symmetric_out) {
    sum_ring.emplace(layout, Traffic{layout.ranks()}, longest, in_ring.lane_count());
  }
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    parts.push_back(
        StreamPart(layout, operands, in_ring, sum_ring ? &*sum_ring : nullptr, rank).build());
  }
  return layout.finish(std::move(parts));
}

}  // namespace sk::algo
