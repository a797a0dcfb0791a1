// All-reduce and reduce-scatter of a few bytes between hosts: every rank puts what a host's ranks
// want of its input to the first of them, who joins all ranks' in their order and hands out the
// results. One crossing, and as many puts as there are ranks and other hosts.
#include "lib/algo/part.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

class SumWhole {
 public:
  SumWhole(const OpDesc& op, const Target& target)
      : layout_(op, target),
        op_(vector_call(op)),
        hosts_(target),
        scatters_(op.kind() == OpKind::kReduceScatter),
        block_bytes_(uint64_t(op_.count) * layout_.element_bytes()),
        in_(add_in()),
        out_(op_.in_place
                 ? in_
                 : layout_.add_operand(BufferKind::kOutput, BufferAccess::kLocal, 1, block_bytes_)),
        inboxes_(layout_.add_inboxes(BufferAccess::kPutOnly, bytes_most(), layout_.ranks())),
        sums_(scatters_ ? layout_.add_workspace(BufferAccess::kLocal, bytes_most()) : 0),
        results_(layout_.add_workspace(BufferAccess::kPutOnly, block_bytes_)) {}

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  enum Lane : uint32_t { kInput, kResult, kLanes };

  uint32_t add_in() {
    const uint8_t operand = op_.in_place && !scatters_ ? 1 : 0;
    return layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kInput,
                               BufferAccess::kLocal, operand,
                               block_bytes_ * (scatters_ ? layout_.ranks() : 1));
  }
  uint32_t leader(uint32_t host) const { return hosts_.on(host)[0]; }
  // What a host's ranks want of every input. Their blocks lie side by side.
  uint64_t bytes_for(uint32_t host) const {
    return scatters_ ? hosts_.size(host) * block_bytes_ : block_bytes_;
  }
  uint64_t bytes_most() const { return scatters_ ? hosts_.largest() * block_bytes_ : block_bytes_; }
  Region wanted(uint32_t rank, uint32_t host) const {
    return flat(in_ + rank, scatters_ ? leader(host) * block_bytes_ : 0, bytes_for(host), kRead);
  }
  Region out(uint32_t rank) const {
    return flat(out_ + rank, scatters_ && op_.in_place ? rank * block_bytes_ : 0, block_bytes_,
                kWrite);
  }

  RankPlan part_of(uint32_t rank) const {
    const uint32_t own = hosts_.of(rank), first = leader(own);
    Part part(layout_, rank, 1, kLanes, [&](uint32_t producer, uint32_t lane) {
      if (producer == rank) return 0u;
      return lane == kInput ? (rank == first ? 1u : 0u) : (producer == first ? 1u : 0u);
    });
    part.enter(false);
    part.await(0);
    for (uint32_t i = 1; i <= hosts_.count(); ++i) {  // What crosses sets out first.
      const uint32_t host = (own + i) % hosts_.count(), to = leader(host);
      if (to == rank) continue;
      part.put(wanted(rank, host),
               flat(inboxes_ + to * layout_.ranks() + rank, 0, bytes_for(host), kWrite),
               part.to(to, kInput), false, {});
    }
    if (rank == first) {
      join(part, own);
    } else {
      const Wait arrival = part.from(first, kResult, 1);
      // In place the result replaces what puts to other hosts read.
      part.copy(0, flat(results_ + rank, 0, block_bytes_, kRead), out(rank), op_.in_place,
                {&arrival, 1}, {}, kTakeInputs);
    }
    return part.finish();
  }

  void join(Part& part, uint32_t host) const {
    const uint32_t rank = part.rank();
    std::vector<Wait> waits;
    for (const uint32_t peer : part.peers()) waits.push_back(part.from(peer, kInput, 1));
    const Region sum = scatters_ ? flat(sums_ + rank, 0, bytes_for(host), kWrite) : out(rank);
    part.reduce_ranks(0, flat(inboxes_ + rank * layout_.ranks(), 0, bytes_for(host), kRead),
                      wanted(rank, host), sum, op_.dtype, op_.redop, /*after_all=*/op_.in_place,
                      waits, {}, kTakeInputs);
    bool first = true;  // Behind the sum; the others start later.
    for (const uint32_t peer : hosts_.on(host)) {
      Region result = sum;
      if (scatters_)
        result = flat(sum.buffer, hosts_.place(peer) * block_bytes_, block_bytes_, kRead);
      if (peer != rank) {
        part.put(result, flat(results_ + peer, 0, block_bytes_, kWrite), part.to(peer, kResult),
                 std::exchange(first, false), {});
      } else if (scatters_) {
        part.copy(0, result, out(rank), std::exchange(first, false));
      }
    }
  }

  Layout layout_;
  VectorCall op_;
  Hosts hosts_;
  bool scatters_;
  uint64_t block_bytes_;
  uint32_t in_, out_, inboxes_;
  uint32_t sums_;  // Of a host's blocks, where results are scattered.
  uint32_t results_;
};

}  // namespace

Plan sum_whole(const OpDesc& op, const Target& target, Ranks ranks) {
  return SumWhole(op, target).plan(ranks);
}

}  // namespace sk::algo
