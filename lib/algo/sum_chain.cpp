// All-reduce and reduce-scatter of many ranks along a chain: sums go up from rank 0 to the last
// one, each rank adding its own, and come back down to who wants them. Additions are in rank order
// as in every other form, so that no bit differs, and a rank passes on as much as around a ring.
//
// Elements of 16 bits go up as f32, in which they are summed: a rank widens its own first, and a
// sum is rounded once, where it becomes a result.
//
// A rank takes up chunk c at time c + 2r and passes its sum on; it takes down chunk c at time
// c + 4(N - 1) - 2r. Two times for a hop leave a step of slack between a put and who takes it.
#include <algorithm>

#include "lib/algo/chunks.h"
#include "lib/algo/large_worlds.h"
#include "lib/algo/neighbours.h"

namespace sk::algo {
namespace {

class SumChain {
 public:
  SumChain(const OpDesc& op, const Target& target)
      : layout_(op, target),
        op_(vector_call(op)),
        scatters_(op.kind() == OpKind::kReduceScatter),
        blocks_(scatters_ ? layout_.ranks() : 1),
        sum_dtype_(accumulator(op_.dtype)),
        sum_bytes_(dtype_bytes(sum_dtype_)),
        in_(add_in()),
        out_(op_.in_place ? in_
                          : layout_.add_operand(BufferKind::kOutput, BufferAccess::kLocal, 1,
                                                block_bytes())),
        chunks_(layout_, uint64_t(op_.count), /*pairs=*/2 * blocks_, sum_bytes_),
        per_block_(chunks_.count(uint64_t(op_.count))),
        up_(add_inbox(layout_, chunks_.elements() * sum_bytes_)),
        down_(add_inbox(layout_, chunks_.elements() * layout_.element_bytes())),
        sums_(layout_.add_workspace(BufferAccess::kLocal, up_.slots * up_.slot_bytes)),
        widened_(widens() ? layout_.add_workspace(BufferAccess::kLocal, up_.slot_bytes) : 0) {}

  uint64_t chunk_count() const { return uint64_t(blocks_) * per_block_; }

  std::vector<Flow> flows(uint32_t rank) const {
    std::vector<Flow> all;
    if (rank > 0) {
      all.push_back(up(rank - 1));
      all.push_back(down(rank));
    }
    if (rank < last()) {
      all.push_back(up(rank));
      all.push_back(down(rank + 1));
    }
    return all;
  }

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  uint64_t block_bytes() const { return uint64_t(op_.count) * layout_.element_bytes(); }
  uint32_t add_in() {
    const uint8_t operand = op_.in_place && !scatters_ ? 1 : 0;
    return layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kInput,
                               BufferAccess::kLocal, operand, blocks_ * block_bytes());
  }

  bool widens() const { return sum_dtype_ != op_.dtype; }
  uint32_t last() const { return layout_.ranks() - 1; }
  uint32_t block(uint32_t chunk) const { return chunk / per_block_; }
  // Chunks that `rank` passes up, or down: results are wanted by the owner of their block, or all.
  uint32_t up_count() const { return blocks_ * per_block_; }
  uint32_t down_count(uint32_t rank) const { return (scatters_ ? rank : 1) * per_block_; }
  uint32_t taken_down(uint32_t rank) const { return rank == last() ? 0 : down_count(rank + 1); }
  bool wants(uint32_t rank, uint32_t chunk) const { return !scatters_ || block(chunk) == rank; }

  uint64_t time_up(uint32_t rank, uint32_t chunk) const { return chunk + 2ull * rank; }
  uint64_t time_down(uint32_t rank, uint32_t chunk) const {
    return chunk + 4ull * last() - 2ull * rank;
  }

  // Within its block.
  Slice piece(uint32_t chunk) const {
    return chunks_.of({0, uint64_t(op_.count)}, chunk % per_block_);
  }
  uint64_t bytes(uint32_t chunk) const { return piece(chunk).count * layout_.element_bytes(); }
  uint64_t bytes_of_sums(uint32_t chunk) const { return piece(chunk).count * sum_bytes_; }
  Region own_in(uint32_t rank, uint32_t chunk) const {
    const uint64_t at = block(chunk) * block_bytes();
    return flat(in_ + rank, at + piece(chunk).begin * layout_.element_bytes(), bytes(chunk), kRead);
  }
  Region own_out(uint32_t rank, uint32_t chunk) const {
    const uint64_t at = scatters_ && op_.in_place ? rank * block_bytes() : 0;
    return flat(out_ + rank, at + piece(chunk).begin * layout_.element_bytes(), bytes(chunk),
                kWrite);
  }

  // From `rank` to the next one.
  Flow up(uint32_t rank) const {
    Flow flow = flow_into(up_, rank, rank + 1, 0);
    flow.chunks.reserve(up_count());
    for (uint32_t c = 0; c < up_count(); ++c) {
      Content content{.operand = 0,
                      .first = 0,
                      .last = rank + 1,
                      .column = block(c) * uint64_t(op_.count) + piece(c).begin,
                      .columns = piece(c).count};
      if (rank > 0 || widens()) content.joined = op_.redop;
      flow.chunks.push_back({bytes_of_sums(c), content, time_up(rank, c), time_up(rank + 1, c)});
    }
    return flow;
  }
  // From `rank` to the one before it: results, as an output holds them.
  Flow down(uint32_t rank) const {
    Flow flow = flow_into(down_, rank, rank - 1, 2 * up_.slots);
    flow.chunks.reserve(down_count(rank));
    for (uint32_t c = 0; c < down_count(rank); ++c) {
      const uint32_t whose = scatters_ ? block(c) : rank - 1;
      const Content content{.operand = 1,
                            .first = whose,
                            .last = whose + 1,
                            .column = piece(c).begin,
                            .columns = piece(c).count};
      flow.chunks.push_back({bytes(c), content, time_down(rank, c), time_down(rank - 1, c)});
    }
    return flow;
  }

  // Of one rank; null where its end of the chain has none.
  struct Ends {
    const Flow *sums_in, *sums_out, *results_in, *results_out;
  };

  RankPlan part_of(uint32_t rank) const {
    const std::vector<Flow> all = flows(rank);
    Part part = begin_part(layout_, rank, all);
    const Ends ends{find_flow(all, rank - 1, rank), find_flow(all, rank, rank + 1),
                    find_flow(all, rank + 1, rank), find_flow(all, rank, rank - 1)};
    // In the order of times; of one time, up first.
    const uint32_t ups = up_count(), downs = taken_down(rank);
    for (uint32_t u = 0, d = 0; u < ups || d < downs;) {
      if (u < ups && (d == downs || time_up(rank, u) <= time_down(rank, d))) {
        add_own(part, ends, u++);
      } else {
        take_result(part, ends, d++);
      }
    }
    return part.finish();
  }

  // Rank 0 begins the sums.
  void begin_sum(Part& part, const Flow& up, uint32_t chunk) const {
    const Region mine = own_in(part.rank(), chunk);
    if (!widens()) return put_chunk(part, up, chunk, mine, false);
    const Region sum = flat(sums_ + part.rank(), up.offset(chunk), bytes_of_sums(chunk), kWrite);
    const std::optional<Wait> room = room_for(up, chunk);  // The put before it is over, too.
    widen(part, mine, sum, maybe(room));
    put_chunk(part, up, chunk, sum, /*after_all=*/true);
  }

  void widen(Part& part, Region from, Region to, std::span<const Wait> waits) const {
    part.reduce(0, {from, to}, op_.dtype, sum_dtype_, op_.redop, /*after_all=*/true, waits, {},
                kStoreDefault);
  }

  void add_own(Part& part, const Ends& ends, uint32_t chunk) const {
    if (ends.sums_in == nullptr) return begin_sum(part, *ends.sums_out, chunk);
    const uint32_t rank = part.rank();
    Region mine = own_in(rank, chunk);
    if (widens()) {
      const Region wide = flat(widened_ + rank, 0, bytes_of_sums(chunk), kWrite);
      widen(part, mine, wide, {});
      mine = wide;
      mine.access = kRead;
    }
    const bool top = ends.sums_out == nullptr;
    // The last rank's sum is a result: its own, or one that goes down.
    const Flow* const on = !top                       ? ends.sums_out
                           : chunk < down_count(rank) ? ends.results_out
                                                      : nullptr;
    const bool stays = top && wants(rank, chunk);
    const Region sum = stays ? own_out(rank, chunk)
                             : flat(sums_ + rank, on->offset(chunk),
                                    top ? bytes(chunk) : bytes_of_sums(chunk), kWrite);
    std::vector<Wait> waits = {arrival_of(*ends.sums_in, chunk)};
    // Then the put that last read this place of `sums_` is over, too.
    if (const auto room = stays ? std::nullopt : room_for(*on, chunk)) waits.push_back(*room);
    const std::optional<Post> credit = credit_of(*ends.sums_in, chunk);
    part.reduce(0, {slot_of(*ends.sums_in, chunk, kRead), mine, sum}, sum_dtype_,
                top ? op_.dtype : sum_dtype_, op_.redop, /*after_all=*/widens(), waits,
                maybe(credit), kTakeInputs);
    if (on != nullptr) put_chunk(part, *on, chunk, sum, /*after_all=*/true);
  }

  void take_result(Part& part, const Ends& ends, uint32_t chunk) const {
    const uint32_t rank = part.rank();
    if (!wants(rank, chunk)) {
      // From slot to slot, which is free once the put has read it.
      const Wait arrival = arrival_of(*ends.results_in, chunk);
      const std::optional<Post> credit = credit_of(*ends.results_in, chunk);
      put_chunk(part, *ends.results_out, chunk, slot_of(*ends.results_in, chunk, kRead), false,
                &arrival);
      if (credit) part.nop(0, {}, maybe(credit), /*after_all=*/true);
      return;
    }
    const Region result = own_out(rank, chunk);
    if (!scatters_ && ends.results_out != nullptr) {
      return pass_chunk(part, *ends.results_in, *ends.results_out, chunk, result);
    }
    // In place rank 0's result replaces what its put reads.
    take_chunk(part, *ends.results_in, chunk, result, op_.in_place && ends.sums_in == nullptr);
  }

  Layout layout_;
  VectorCall op_;
  bool scatters_;
  uint32_t blocks_;
  DType sum_dtype_;
  uint64_t sum_bytes_;
  uint32_t in_, out_;
  Chunks chunks_;
  uint32_t per_block_;
  Inbox up_, down_;
  uint32_t sums_;
  uint32_t widened_;  // Where elements are narrower than sums.
};

}  // namespace

// An average is none of averages.
bool sum_chain_does(const OpDesc& op, const Target&) {
  return vector_call(op).redop != RedOp::kAvg;
}

Plan sum_chain(const OpDesc& op, const Target& target, Ranks ranks) {
  return SumChain(op, target).plan(ranks);
}

uint64_t sum_chain_chunks(const OpDesc& op, const Target& target) {
  return chunks_by<SumChain>(op, target);
}

FlowsOf sum_chain_flows(const OpDesc& op, const Target& target) {
  return flows_by<SumChain>(op, target);
}

}  // namespace sk::algo
