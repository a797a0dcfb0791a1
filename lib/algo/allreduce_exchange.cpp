// All-reduce of two ranks: each passes all of its input to the other through a ring, chunk by
// chunk, and reduces both. As many bytes cross as with slices, whose sums must come back, but
// nothing waits for a way back.
#include "lib/algo/allreduce_forms.h"
#include "lib/algo/ring.h"

namespace sk::algo {
namespace {

class ExchangePart {
 public:
  ExchangePart(const Layout& layout, Operands operands, const Ring& ring, uint32_t rank)
      : layout_(layout),
        op_(layout.call()),
        operands_(operands),
        ring_(ring),
        peer_(1 - rank),
        part_(layout, rank, 1, ring.lane_count(), [&](uint32_t producer, uint32_t lane) {
          return producer == rank ? 0 : ring.posts(lane, whole().count, whole().count);
        }) {}

  RankPlan build() {
    part_.enter(false);
    part_.await(0);
    const uint32_t chunks = ring_.chunks(whole().count);
    for (uint32_t step = 0; step <= chunks; ++step) {  // One chunk ahead hides the hand-off.
      if (step < chunks) {
        ring_.put(part_, peer_, step, own(operands_.in, step, kRead), false);
      }
      if (step > 0) reduce(step - 1);
    }
    return part_.finish();
  }

 private:
  Slice whole() const { return {0, uint64_t(op_.count)}; }

  Region own(uint32_t operand, uint32_t chunk, RegionAccess access) const {
    const Slice piece = ring_.chunk(whole(), chunk);
    const uint64_t es = layout_.element_bytes();
    return flat(operand + part_.rank(), piece.begin * es, piece.count * es, access);
  }

  void reduce(uint32_t chunk) {
    const Wait arrival = ring_.arrival(part_, peer_, chunk);
    const auto credit = ring_.credit(part_, peer_, chunk, whole().count);
    const StoreHintParam hint =
        uint64_t(op_.count) * layout_.element_bytes() >= layout_.target().stream_bytes
            ? kStoreNonTemporal
            : kStoreDefault;
    // In place the sum replaces what the put of this chunk reads.
    const Slice piece = ring_.chunk(whole(), chunk);
    part_.reduce_ranks(0, ring_.slot(part_.rank(), 0, chunk, piece.count, kRead),
                       own(operands_.in, chunk, kRead), own(operands_.out, chunk, kWrite),
                       op_.dtype, op_.redop, /*after_all=*/op_.in_place, {&arrival, 1},
                       credit ? std::span(&*credit, 1) : std::span<const Post>(), hint);
  }

  const Layout& layout_;
  const VectorCall& op_;
  Operands operands_;
  const Ring& ring_;
  uint32_t peer_;
  Part part_;
};

}  // namespace

Plan allreduce_exchange(Layout layout, Ranks ranks) {
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  const Ring ring(layout, {layout.ranks()}, uint64_t(layout.call().count), /*first_lane=*/0);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    parts.push_back(ExchangePart(layout, operands, ring, rank).build());
  }
  return layout.finish(std::move(parts));
}

}  // namespace sk::algo
