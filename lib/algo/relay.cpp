// All-gather and broadcast between hosts: what a rank has for all others crosses to each host once,
// to a rank which hands it to the others there. Of an all-gather those ranks take turns. A
// broadcast goes from the root to all hosts, or from host to host in as many strands as each has
// ranks, or as are worth their memory.
//
// Queues are in the order of times, and every task waits for what was done at earlier ones, so
// nobody waits in a circle as long as flows have more slots than a hop has times. A round of times
// has one for each strand that a rank hands on, so that they share the slots of one flow.
#include <algorithm>
#include <map>

#include "lib/algo/chunks.h"
#include "lib/algo/neighbours.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

constexpr uint32_t kHopTimes = 2, kSlotsMin = kHopTimes + 1, kSlotsMax = 8;
// A rank has an inbox for each; the root alone has as much to do as so many of another host.
constexpr uint32_t kStrandsMax = 4;

// From one rank to all others.
struct Strand {
  uint32_t source;
  Slice block;                  // Elements of what the source has.
  std::vector<uint32_t> giver;  // Of each rank; the source's is itself.
  std::vector<uint32_t> hops;
  std::vector<uint32_t> turn;  // In a round, other ones for all strands that one rank hands on.
};

// Straight to a rank of each host, and from there to the others.
Strand once_per_host(const Hosts& hosts, uint32_t source, uint64_t count) {
  Strand strand{source, {0, count}, {}, {}, {}};
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
  Strand strand{source, block, {}, {}, {}};
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
    const uint32_t places = std::min(hosts.smallest(), kStrandsMax);
    for (uint32_t place = 0; place < places; ++place) {
      const Slice block = slice_of(count, places, place, unit);
      if (block.count > 0) strands.push_back(along_hosts(hosts, uint32_t(op.root), place, block));
    }
  }
  return strands;
}

// Returns how many turns a round has.
uint32_t take_turns(std::vector<Strand>& strands, const Hosts& hosts, bool gathers) {
  uint32_t most = gathers ? 1 : uint32_t(strands.size());
  std::map<uint32_t, uint32_t> handed_on;
  for (uint32_t i = 0; i < strands.size(); ++i) {
    Strand& strand = strands[i];
    strand.turn.assign(hosts.ranks(), gathers ? 0 : i);
    for (uint32_t host = 0; gathers && host < hosts.count(); ++host) {
      if (host == hosts.of(strand.source)) continue;
      const auto& on = hosts.on(host);
      const uint32_t first =
          *std::ranges::find(on, 1u, [&](uint32_t rank) { return strand.hops[rank]; });
      const uint32_t turn = handed_on[first]++;
      for (const uint32_t rank : on) strand.turn[rank] = turn;
      most = std::max(most, turn + 1);
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
        hosts_(target),
        strands_(strands_of(layout_, hosts_, levels)),
        turns_(take_turns(strands_, hosts_, gathers_)),
        in_(op_.in_place ? 0 : add_in()),
        out_(layout_.add_operand(op_.in_place ? BufferKind::kInOut : BufferKind::kOutput,
                                 BufferAccess::kLocal, 1,
                                 block_bytes() * (gathers_ ? layout_.ranks() : 1))),
        chunks_(
            layout_, strands_[0].block.count,
            gathers_ ? uint64_t(layout_.ranks()) * layout_.ranks() : 2ull * (layout_.ranks() - 1)),
        slots_(std::clamp(target.slot_count, kSlotsMin, kSlotsMax)),
        slot_bytes_(align_up(chunks_.elements() * element_bytes_, kWorkspaceAlign)),
        inboxes_(layout_.add_inboxes(BufferAccess::kPutOnly, slots_ * slot_bytes_, inboxes())) {}

  Plan plan(Ranks ranks) && {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  // What one rank sends to another of its own, or of what it hands on.
  struct Lot {
    Flow flow;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> number;  // Of strand and chunk.
  };
  struct Lots {
    std::map<uint32_t, Lot> own, handed_on;  // By the other rank.
    const Lot& of(uint32_t peer, bool is_own) const { return (is_own ? own : handed_on).at(peer); }
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

  // By the rank whose own it is; by who of the host hands it on, or that another host does. Of a
  // broadcast a rank has one giver for each strand, and an inbox for each of those alone.
  uint32_t own_inboxes() const { return gathers_ ? layout_.ranks() : 1; }
  uint32_t inboxes() const {
    return own_inboxes() + (gathers_ ? hosts_.largest() + 1 : uint32_t(strands_.size()));
  }
  uint32_t inbox(uint32_t from, uint32_t to, bool is_own) const {
    const uint32_t first = inboxes_ + to * inboxes();
    if (is_own) return first + (gathers_ ? from : 0);
    if (!gathers_) {
      const auto its = [&](const Strand& strand) { return strand.giver[to] == from; };
      return first + own_inboxes() +
             uint32_t(std::ranges::find_if(strands_, its) - strands_.begin());
    }
    const bool local = hosts_.of(from) == hosts_.of(to);
    return first + own_inboxes() + (local ? hosts_.place(from) : hosts_.largest());
  }

  // Empty where there is none.
  Lot lot(uint32_t from, uint32_t to, bool is_own) const {
    const uint32_t lane = is_own ? 0 : 2 * slots_;
    Lot lot{{.from = from,
             .to = to,
             .inbox = inbox(from, to, is_own),
             .slots = slots_,
             .slot_bytes = slot_bytes_,
             .data = lane,
             .credit = lane + slots_,
             .chunks = {}},
            {}};
    for (const Event& event : events_of(from)) {
      const Strand& strand = strands_[event.strand];
      if (strand.source == to || strand.giver[to] != from) continue;
      if ((strand.source == from) != is_own) continue;
      lot.number[{event.strand, event.chunk}] = lot.flow.count();
      lot.flow.chunks.push_back({.bytes = piece(event.strand, event.chunk).count * element_bytes_});
    }
    return lot;
  }

  // To or from `rank`.
  Lots lots(uint32_t rank, bool out) const {
    Lots all;
    for (uint32_t peer = 0; peer < layout_.ranks(); ++peer) {
      for (const bool is_own : {true, false}) {
        if (peer == rank || !has_lot(out ? rank : peer, out ? peer : rank, is_own)) continue;
        (is_own ? all.own : all.handed_on)
            .emplace(peer, lot(out ? rank : peer, out ? peer : rank, is_own));
      }
    }
    return all;
  }
  bool has_lot(uint32_t from, uint32_t to, bool is_own) const {
    return std::ranges::any_of(strands_, [&](const Strand& strand) {
      return strand.source != to && strand.giver[to] == from && (strand.source == from) == is_own;
    });
  }

  // When a rank has a chunk of a strand. What ranks gather of each other they send before they take
  // any of the same round.
  uint64_t time(uint32_t rank, const Strand& strand, uint32_t chunk) const {
    const uint64_t round = uint64_t(chunk) * turns_, hops = strand.hops[rank];
    if (!gathers_) return round + strand.turn[rank] + kHopTimes * hops;
    return hops == 0 ? round : round + turns_ + strand.turn[rank] + kHopTimes * (hops - 1);
  }

  std::vector<Event> events_of(uint32_t rank) const {
    std::vector<Event> events;
    const uint32_t count = uint32_t(strands_.size());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t strand = (rank + count - i) % count;
      const Strand& its = strands_[strand];
      for (uint32_t chunk = 0; chunk < chunks_.count(its.block.count); ++chunk)
        events.push_back({time(rank, its, chunk), strand, chunk});
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    return events;
  }

  // Who hands it on comes first; rotated, so that no rank is hit by all.
  std::vector<uint32_t> takers(uint32_t rank, const Strand& strand) const {
    std::vector<uint32_t> all;
    for (uint32_t i = 1; i < layout_.ranks(); ++i) {
      const uint32_t to = (rank + i) % layout_.ranks();
      if (to != strand.source && strand.giver[to] == rank) all.push_back(to);
    }
    std::ranges::stable_partition(
        all, [&](uint32_t to) { return std::ranges::count(strand.giver, to) > 0; });
    return all;
  }

  RankPlan part_of(uint32_t rank) const {
    const Lots in = lots(rank, /*out=*/false), out = lots(rank, /*out=*/true);
    std::vector<Flow> flows;
    for (const auto* some : {&in.own, &in.handed_on, &out.own, &out.handed_on}) {
      for (const auto& [peer, lot] : *some) flows.push_back(lot.flow);
    }
    Part part = begin_part(layout_, rank, flows);
    const bool has_own = gathers_ || int32_t(rank) == op_.root;
    const Slice whole{0, uint64_t(op_.count)};
    if (has_own && !op_.in_place) part.copy(0, own(rank, whole), place(rank, rank, whole));
    for (const Event& event : events_of(rank)) {
      const Strand& strand = strands_[event.strand];
      const Slice its = piece(event.strand, event.chunk);
      const bool is_own = rank == strand.source;
      std::vector<Onward> on;
      for (const uint32_t to : takers(rank, strand)) {
        const Lot& lot = out.of(to, is_own);
        on.push_back({&lot.flow, lot.number.at({event.strand, event.chunk})});
        if (is_own) put_chunk(part, lot.flow, on.back().chunk, own(rank, its), false);
      }
      if (is_own) continue;
      const uint32_t giver = strand.giver[rank];
      const Lot& from = in.of(giver, giver == strand.source);
      hand_on_chunk(part, from.flow, from.number.at({event.strand, event.chunk}), on,
                    place(rank, strand.source, its));
    }
    return part.finish();
  }

  Layout layout_;
  VectorCall op_;
  bool gathers_;
  uint64_t element_bytes_;
  Hosts hosts_;
  std::vector<Strand> strands_;
  uint32_t turns_;
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

}  // namespace sk::algo
