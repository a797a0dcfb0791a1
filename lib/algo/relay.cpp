// All-gather and broadcast between hosts: what a rank has for all others crosses to each host once,
// to a rank which hands it to the others there. Of an all-gather those ranks take turns. A
// broadcast goes from the root to all hosts, or from host to host in as many strands as each has
// ranks.
//
// Strand by strand, chunk k is sent by its source at time k, and arrives one time later for each
// rank on its way. Queues are in the order of times, so nobody waits in a circle.
#include <algorithm>
#include <map>

#include "lib/algo/chunks.h"
#include "lib/algo/neighbours.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

constexpr uint32_t kSlotsMin = 2, kSlotsMax = 8;

// From one rank to all others.
struct Strand {
  uint32_t source;
  Slice block;                  // Elements of what the source has.
  std::vector<uint32_t> giver;  // Of each rank; the source's is itself.
  std::vector<uint32_t> hops;
};

// Straight to a rank of each host, and from there to the others.
Strand once_per_host(const Hosts& hosts, uint32_t source, uint64_t count) {
  Strand strand{source, {0, count}, {}, {}};
  for (uint32_t rank = 0; rank < hosts.ranks(); ++rank) {
    const uint32_t host = hosts.of(rank);
    const bool local = host == hosts.of(source);
    const uint32_t first = local ? source : hosts.on(host)[hosts.place(source) % hosts.size(host)];
    strand.giver.push_back(rank == first ? source : first);
    strand.hops.push_back(rank == source ? 0 : local || rank == first ? 1 : 2);
  }
  return strand;
}

// From host to host, to the ranks that have this place in each.
Strand along_hosts(const Hosts& hosts, uint32_t source, uint32_t place, Slice block) {
  Strand strand{source, block, {}, {}};
  const auto carrier = [&](uint32_t host) { return hosts.on(host)[place]; };
  for (uint32_t rank = 0; rank < hosts.ranks(); ++rank) {
    const uint32_t host = hosts.of(rank), count = hosts.count();
    const uint32_t away = (host + count - hosts.of(source)) % count;
    if (away == 0) {
      strand.giver.push_back(source);
      strand.hops.push_back(rank == source ? 0 : 1);
    } else if (rank != carrier(host)) {
      strand.giver.push_back(carrier(host));
      strand.hops.push_back(away + 1);
    } else {
      strand.giver.push_back(away == 1 ? source : carrier((host + count - 1) % count));
      strand.hops.push_back(away);
    }
  }
  return strand;
}

std::vector<Strand> strands_of(const Layout& layout, const Hosts& hosts, Levels levels) {
  const VectorCall& op = layout.call();
  const uint64_t count = uint64_t(op.count);
  std::vector<Strand> strands;
  if (layout.op().kind() == OpKind::kAllgather) {
    for (uint32_t rank = 0; rank < layout.ranks(); ++rank)
      strands.push_back(once_per_host(hosts, rank, count));
  } else if (levels == Levels::kOncePerHost) {
    strands.push_back(once_per_host(hosts, uint32_t(op.root), count));
  } else {
    const uint64_t unit = line_elements(op.dtype);
    for (uint32_t place = 0; place < hosts.smallest(); ++place) {
      const Slice block = slice_of(count, hosts.smallest(), place, unit);
      if (block.count > 0) strands.push_back(along_hosts(hosts, uint32_t(op.root), place, block));
    }
  }
  return strands;
}

// On one edge.
uint32_t strands_max(const std::vector<Strand>& strands, uint32_t ranks) {
  std::map<uint64_t, uint32_t> on_edge;
  uint32_t most = 1;
  for (const Strand& strand : strands) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank == strand.source) continue;
      most = std::max(most, ++on_edge[uint64_t(strand.giver[rank]) * ranks + rank]);
    }
  }
  return most;
}

class Relay {
 public:
  Relay(const OpDesc& op, const Target& target, Levels levels)
      : layout_(op, target),
        op_(vector_call(op)),
        gathers_(op.kind() == OpKind::kAllgather),
        element_bytes_(layout_.element_bytes()),
        strands_(strands_of(layout_, Hosts(target), levels)),
        in_(op_.in_place ? 0 : add_in()),
        out_(layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kOutput,
                                 BufferAccess::kLocal, 1,
                                 block_bytes() * (gathers_ ? layout_.ranks() : 1))),
        chunks_(layout_, strands_[0].block.count,
                gathers_ ? uint64_t(layout_.ranks()) * layout_.ranks()
                         : 2ull * (layout_.ranks() - 1) * strands_.size()),
        slots_(std::clamp(std::min(target.slot_count, layout_.lanes_max() / 2 /
                                                          strands_max(strands_, layout_.ranks())),
                          kSlotsMin, kSlotsMax)),
        slot_bytes_(align_up(chunks_.elements() * element_bytes_, kWorkspaceAlign)),
        inboxes_(layout_.add_inboxes(BufferAccess::kPutOnly, slots_ * slot_bytes_,
                                     uint32_t(strands_.size()))) {}

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  // By strand; without chunks where a rank has no such edge.
  struct Edges {
    std::vector<Flow> in;
    std::vector<std::vector<Flow>> out;
  };
  struct Event {
    uint64_t time;
    uint32_t strand, chunk;
  };

  uint64_t block_bytes() const { return uint64_t(op_.count) * element_bytes_; }
  uint32_t add_in() {
    return layout_.add_operand(BufferKind::kInput, BufferAccess::kLocal, 0, block_bytes());
  }
  Slice piece(uint32_t strand, uint32_t chunk) const {
    return chunks_.of(strands_[strand].block, chunk);
  }
  Region place(uint32_t rank, uint32_t source, Slice piece) const {
    const uint64_t first = gathers_ ? source * block_bytes() : 0;
    return flat(out_ + rank, first + piece.begin * element_bytes_, piece.count * element_bytes_,
                kWrite);
  }
  Region own(uint32_t rank, Slice piece) const {
    if (op_.in_place) return place(rank, rank, piece);
    return flat(in_ + rank, piece.begin * element_bytes_, piece.count * element_bytes_, kRead);
  }

  // To `to`, from its giver.
  Flow flow(uint32_t strand, uint32_t to) const {
    const uint32_t from = strands_[strand].giver[to];
    uint32_t before = 0;  // Of the same edge.
    for (uint32_t other = 0; other < strand; ++other) before += strands_[other].giver[to] == from;
    const uint32_t lane = before * 2 * slots_;
    Flow flow{.from = from,
              .to = to,
              .inbox = inboxes_ + to * uint32_t(strands_.size()) + strand,
              .slots = slots_,
              .slot_bytes = slot_bytes_,
              .data = lane,
              .credit = lane + slots_,
              .chunks = {}};
    for (uint32_t chunk = 0; chunk < chunks_.count(strands_[strand].block.count); ++chunk)
      flow.chunks.push_back({.bytes = piece(strand, chunk).count * element_bytes_});
    return flow;
  }

  Edges edges_of(uint32_t rank) const {
    Edges edges;
    for (uint32_t strand = 0; strand < strands_.size(); ++strand) {
      const Strand& its = strands_[strand];
      edges.in.push_back(rank == its.source ? Flow() : flow(strand, rank));
      std::vector<Flow>& out = edges.out.emplace_back();
      for (uint32_t i = 1; i < layout_.ranks(); ++i) {  // Rotated, so that no rank is hit by all.
        const uint32_t to = (rank + i) % layout_.ranks();
        if (to != its.source && its.giver[to] == rank) out.push_back(flow(strand, to));
      }
      // Who has the longer way comes first.
      std::stable_partition(out.begin(), out.end(), [&](const Flow& each) {
        return std::ranges::count(its.giver, each.to) > 0;
      });
    }
    return edges;
  }

  std::vector<Event> events_of(uint32_t rank) const {
    std::vector<Event> events;
    const uint32_t count = uint32_t(strands_.size());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t strand = (rank + count - i) % count;
      const Strand& its = strands_[strand];
      for (uint32_t chunk = 0; chunk < chunks_.count(its.block.count); ++chunk)
        events.push_back({uint64_t(chunk) + its.hops[rank], strand, chunk});
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    return events;
  }

  RankPlan part_of(uint32_t rank) const {
    const Edges edges = edges_of(rank);
    std::vector<Flow> flows;
    for (size_t strand = 0; strand < strands_.size(); ++strand) {
      if (edges.in[strand].count() > 0) flows.push_back(edges.in[strand]);
      flows.insert(flows.end(), edges.out[strand].begin(), edges.out[strand].end());
    }
    Part part = begin_part(layout_, rank, flows);
    const bool has_own = gathers_ || int32_t(rank) == op_.root;
    const Slice whole{0, uint64_t(op_.count)};
    if (has_own && !op_.in_place) part.copy(0, own(rank, whole), place(rank, rank, whole));
    for (const Event& event : events_of(rank)) {
      const Slice its = piece(event.strand, event.chunk);
      const uint32_t source = strands_[event.strand].source;
      std::vector<Onward> out;
      for (const Flow& to : edges.out[event.strand]) {
        if (rank == source) put_chunk(part, to, event.chunk, own(rank, its), false);
        out.push_back({&to, event.chunk});
      }
      if (rank == source) continue;
      hand_on_chunk(part, edges.in[event.strand], event.chunk, out, place(rank, source, its));
    }
    return part.finish();
  }

  Layout layout_;
  VectorCall op_;
  bool gathers_;
  uint64_t element_bytes_;
  std::vector<Strand> strands_;
  uint32_t in_, out_;
  Chunks chunks_;
  uint32_t slots_;
  uint64_t slot_bytes_;
  uint32_t inboxes_;
};

}  // namespace

Plan relay(const OpDesc& op, const Target& target, Ranks ranks, Levels levels) {
  return Relay(op, target, levels).plan(ranks);
}

bool relay_fits(const OpDesc& op, const Target& target, Levels levels) {
  const Layout layout(op, target);
  const std::vector<Strand> strands = strands_of(layout, Hosts(target), levels);
  return strands_max(strands, layout.ranks()) * 2 * kSlotsMin <= layout.lanes_max();
}

}  // namespace sk::algo
