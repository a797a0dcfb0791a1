// All-reduce of ordinary memory where workspaces are mapped, for more than two ranks: each rank
// copies a chunk of its input to its workspace, reduces its slice of the chunk from all of them
// into everybody's workspace, and copies the sums out. Three tasks per rank and chunk, however many
// ranks there are; a stream of puts has three per pair.
#include <algorithm>

#include "lib/algo/allreduce_forms.h"
#include "lib/algo/part.h"

namespace sk::algo {
namespace {

// The copy of chunk c + 2, the reduction of c + 1 and the copy out of c go on side by side.
constexpr uint32_t kSlots = 3;
// More chunks hide no more. Many ranks take fewer: each chunk is a hand-off between all of them,
// and a plan of a hundred tasks is made and judged in a millisecond.
constexpr uint64_t kChunksMax = 8, kRankChunksMax = 32, kChunkBytesMin = 256 << 10;
// But no chunk is larger than this: a rank keeps six of them, and its memory for good.
constexpr uint64_t kChunkBytesMax = 16 << 20;

class StagedPart {
 public:
  struct Staging {
    uint32_t in, out;  // Rank 0's buffers.
    uint64_t chunk;    // Elements.
    uint32_t chunks;
  };

  StagedPart(const Layout& layout, Operands operands, const Staging& staging, uint32_t rank)
      : layout_(layout),
        op_(layout.call()),
        operands_(operands),
        staging_(staging),
        part_(layout, rank, 1, kLanes,
              [&](uint32_t producer, uint32_t) { return producer == rank ? 0 : staging.chunks; }) {}

  RankPlan build() {
    part_.enter(false);
    part_.await(0);
    for (uint32_t step = 0; step < staging_.chunks + 2; ++step) {
      if (step < staging_.chunks) copy_in(step);
      if (step >= 1 && step - 1 < staging_.chunks) reduce(step - 1);
      if (step >= 2) copy_out(step - 2);
    }
    return part_.finish();
  }

 private:
  // Counters: every task that posts is behind all earlier ones, so a count tells which.
  enum Lane : uint32_t { kCopiedIn, kReduced, kLanes };

  Slice piece(uint32_t chunk) const {
    const uint64_t begin = chunk * staging_.chunk;
    return {begin, std::min(staging_.chunk, uint64_t(op_.count) - begin)};
  }
  Region own(uint32_t operand, Slice slice, RegionAccess access) const {
    const uint64_t es = layout_.element_bytes();
    return flat(operand + part_.rank(), slice.begin * es, slice.count * es, access);
  }
  // `slice` of the chunk, counted from the chunk's start.
  Region staged(uint32_t buffer, uint32_t chunk, Slice slice, RegionAccess access,
                uint32_t ranks = 1) const {
    const uint64_t es = layout_.element_bytes();
    return flat(buffer, (chunk % kSlots * staging_.chunk + slice.begin) * es, slice.count * es,
                access, ranks);
  }
  std::vector<Wait> from_all_peers(Lane lane, uint32_t target) const {
    std::vector<Wait> waits;
    for (const uint32_t peer : part_.peers()) waits.push_back(part_.from(peer, lane, target));
    return waits;
  }

  // The slot is free: copy_out() of kSlots chunks ago has seen everybody's reduction of it.
  void copy_in(uint32_t chunk) {
    const Slice whole = piece(chunk);
    part_.copy(0, own(operands_.in, whole, kRead),
               staged(staging_.in + part_.rank(), chunk, {0, whole.count}, kWrite),
               /*after_all=*/true, {}, part_.to_all_peers(kCopiedIn), kHandOver);
  }

  // Everybody's slot for the sums is free: whoever has copied this chunk in has copied the sums of
  // kSlots chunks ago out before.
  void reduce(uint32_t chunk) {
    const Slice whole = piece(chunk);
    const Slice mine =
        slice_of(whole.count, layout_.ranks(), part_.rank(), line_elements(op_.dtype));
    const std::vector<Wait> waits = from_all_peers(kCopiedIn, chunk + 1);
    const std::vector<Post> posts = part_.to_all_peers(kReduced);
    if (mine.count == 0) return part_.nop(0, waits, posts, /*after_all=*/true);
    part_.reduce_ranks(0, staged(staging_.in, chunk, mine, kRead),
                       own(operands_.in, {whole.begin + mine.begin, mine.count}, kRead),
                       staged(staging_.out, chunk, mine, kWrite, layout_.ranks()), op_.dtype,
                       op_.redop, /*after_all=*/true, waits, posts, kStoreDefault);
  }

  void copy_out(uint32_t chunk) {
    const Slice whole = piece(chunk);
    const bool past_caches =
        uint64_t(op_.count) * layout_.element_bytes() >= layout_.target().stream_bytes;
    part_.copy(0, staged(staging_.out + part_.rank(), chunk, {0, whole.count}, kRead),
               own(operands_.out, whole, kWrite), /*after_all=*/true,
               from_all_peers(kReduced, chunk + 1), {},
               past_caches ? kStoreNonTemporal : kStoreDefault);
  }

  const Layout& layout_;
  const VectorCall& op_;
  Operands operands_;
  const Staging& staging_;
  Part part_;
};

}  // namespace

Plan allreduce_staged(Layout layout, Ranks ranks) {
  const VectorCall op = layout.call();
  const uint64_t es = layout.element_bytes(), unit = line_elements(op.dtype);
  const Operands operands = add_operands(layout, BufferAccess::kLocal, BufferAccess::kLocal);
  StagedPart::Staging staging{};
  const uint64_t chunks_max = std::clamp<uint64_t>(kRankChunksMax / layout.ranks(), 1, kChunksMax);
  const uint64_t chunks =
      std::max(std::clamp<uint64_t>(op.count * es / kChunkBytesMin, 1, chunks_max),
               (op.count * es + kChunkBytesMax - 1) / kChunkBytesMax);
  staging.chunk = align_up((uint64_t(op.count) + chunks - 1) / chunks, unit);
  staging.chunks = uint32_t((uint64_t(op.count) + staging.chunk - 1) / staging.chunk);
  const uint64_t bytes = std::min(kSlots, staging.chunks) * staging.chunk * es;
  staging.in = layout.add_workspace(BufferAccess::kMapped, bytes);
  staging.out = layout.add_workspace(BufferAccess::kMapped, bytes);
  std::vector<RankPlan> parts;
  for (const uint32_t rank : ranks) {
    parts.push_back(StagedPart(layout, operands, staging, rank).build());
  }
  return layout.finish(std::move(parts));
}

}  // namespace sk::algo
