// All-reduce and reduce-scatter from host to host: the first one sums its ranks' elements, each
// further one joins its own to what it gets, in rank order as in every other form, so that no bit
// differs. From the last host the results go to who wants them: of an all-reduce along trees of
// hosts, of a reduce-scatter straight to the owner of the block. What is summed are vectors, or
// products while they are made (allreduce_gemm_hosts.cpp).
//
// In each column one rank of each host carries. It gets what the others there have for the sums,
// and hands them what comes of it. The units of a column follow one another through all of it: at
// host h a unit of time t is summed at t + 2(h + 1), and its results arrive two times later for
// each hop. Every task waits for what was done at earlier times, and queues are in the order of
// times, so nobody waits in a circle as long as flows have more slots than a hop has times.
#include "lib/algo/sum_along_hosts.h"

#include <algorithm>
#include <map>

#include "lib/algo/neighbours.h"
#include "lib/algo/two_level.h"

namespace sk::algo {
namespace {

constexpr uint32_t kSlotsMin = kHopTimes + 1, kSlotsMax = 8;

class SumAlongHosts {
 public:
  SumAlongHosts(Layout& layout, const Hosts& hosts, const HostSums& sums)
      : layout_(layout),
        hosts_(hosts),
        given_(sums),
        units_(sums.units),
        in_bytes_(dtype_bytes(sums.dtype)),
        out_bytes_(dtype_bytes(sums.out_dtype)),
        sum_dtype_(accumulator(sums.dtype)),
        sum_bytes_(dtype_bytes(sum_dtype_)),
        slots_(slots_along_hosts(layout.target())),
        sum_slot_(align_up(units_.elements_max() * sum_bytes_, kWorkspaceAlign)),
        result_slot_(align_up(units_.elements_max() * out_bytes_, kWorkspaceAlign)),
        results_(
            layout_.add_inboxes(BufferAccess::kPutOnly, slots_ * result_slot_, result_sources())),
        terms_(of_carriers(BufferAccess::kPutOnly, slots_ * sum_slot_, term_sources())),
        sums_(of_carriers(BufferAccess::kLocal, slots_ * sum_slot_, 1)),
        wide_(widens() ? of_carriers(BufferAccess::kLocal, sum_slot_, hosts_.largest()) : 0) {}

  Plan plan(Ranks ranks) {
    std::vector<RankPlan> parts;
    for (const uint32_t rank : ranks) parts.push_back(part_of(rank));
    return layout_.finish(std::move(parts));
  }

 private:
  using Unit = SumUnits::Unit;
  struct Edge {
    Flow flow;
    std::vector<uint32_t> chunk_of;  // By unit.
  };
  // Of one rank: by who it is from, or to.
  struct Edges {
    std::map<uint32_t, Edge> terms_in, terms_out, results_in, results_out;
  };
  enum class Step { kGive, kSum, kTake };
  struct Event {
    uint64_t time;
    Step step;
    uint32_t column, unit;
  };

  bool widens() const { return sum_dtype_ != given_.dtype; }
  bool makes() const { return given_.maker != nullptr; }
  uint32_t last() const { return hosts_.last(); }

  // Behind what all ranks have, so that the others need no memory for it.
  uint32_t of_carriers(BufferAccess access, uint64_t bytes, uint32_t sources) {
    return layout_.add_inboxes(access, bytes, sources,
                               [this](uint32_t rank) { return units_.carries(rank); });
  }

  // Inboxes of a rank: for each rank of its host, then for the host before.
  uint32_t term_sources() const { return hosts_.largest() + 1; }
  // For each column of its own host, then for each other host.
  uint32_t result_sources() const { return units_.columns() + hosts_.count(); }

  Edge edge(uint32_t from, uint32_t to, uint32_t inbox, uint64_t slot_bytes, uint32_t lane) const {
    return {{.from = from,
             .to = to,
             .inbox = inbox,
             .slots = slots_,
             .slot_bytes = slot_bytes,
             .data = lane,
             .credit = lane + slots_,
             .chunks = {}},
            {}};
  }
  // Elements of a rank of the same host, or sums of the host before.
  Edge terms(uint32_t column, uint32_t from, uint32_t to) const {
    const bool local = hosts_.of(from) == hosts_.of(to);
    Edge made = edge(from, to,
                     terms_ + to * term_sources() + (local ? hosts_.place(from) : hosts_.largest()),
                     sum_slot_, 0);
    for (const Unit& unit : units_.of(column)) {
      made.chunk_of.push_back(made.flow.count());
      made.flow.chunks.push_back({.bytes = unit.count * (local ? in_bytes_ : sum_bytes_)});
    }
    return made;
  }
  Edge results(uint32_t column, uint32_t from, uint32_t to) const {
    const uint32_t host = hosts_.of(from);
    const uint32_t source = host == hosts_.of(to) ? column : units_.columns() + host;
    Edge made = edge(from, to, results_ + to * result_sources() + source, result_slot_, 2 * slots_);
    for (const Unit& unit : units_.of(column)) {
      made.chunk_of.push_back(made.flow.count());
      if (units_.giver(column, unit, to) != from) continue;
      made.flow.chunks.push_back({.bytes = unit.count * out_bytes_});
    }
    return made;
  }

  Edges edges_of(uint32_t rank) const {
    Edges all;
    const uint32_t host = hosts_.of(rank), place = hosts_.place(rank);
    for (uint32_t column = 0; column < units_.columns(); ++column) {
      const uint32_t own = units_.carrier(host, column);
      if (rank != own) all.terms_out.emplace(own, terms(column, rank, own));
      for (uint32_t from = 0; from < layout_.ranks(); ++from) {
        if (from == rank || hosts_.place(from) != column) continue;
        Edge made = results(column, from, rank);
        if (made.flow.count() > 0) all.results_in.emplace(from, std::move(made));
      }
    }
    if (!units_.carries(rank)) return all;
    for (const uint32_t from : hosts_.on(host)) {
      if (from != rank) all.terms_in.emplace(from, terms(place, from, rank));
    }
    if (host > 0) {
      const uint32_t before = units_.carrier(host - 1, place);
      all.terms_in.emplace(before, terms(place, before, rank));
    }
    if (host < last()) {
      const uint32_t next = units_.carrier(host + 1, place);
      all.terms_out.emplace(next, terms(place, rank, next));
    }
    for (uint32_t to = 0; to < layout_.ranks(); ++to) {
      if (to == rank) continue;
      Edge made = results(place, rank, to);
      if (made.flow.count() > 0) all.results_out.emplace(to, std::move(made));
    }
    return all;
  }

  std::vector<Event> events_of(uint32_t rank) const {
    std::vector<Event> events;
    const uint64_t host = hosts_.of(rank);
    for (uint32_t column = 0; column < units_.columns(); ++column) {
      const bool carries = rank == units_.carrier(uint32_t(host), column);
      for (uint32_t u = 0; u < units_.of(column).size(); ++u) {
        const Unit& unit = units_.of(column)[u];
        events.push_back({unit.time + kHopTimes * (host + (carries ? 1 : 0)),
                          carries ? Step::kSum : Step::kGive, column, u});
        if (units_.giver(column, unit, rank) == rank) continue;
        events.push_back(
            {unit.time + kHopTimes * (hosts_.count() + units_.hops(column, unit, rank)),
             Step::kTake, column, u});
      }
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    return events;
  }

  RankPlan part_of(uint32_t rank) const {
    const Edges edges = edges_of(rank);
    std::vector<Flow> flows;
    for (const auto* some :
         {&edges.terms_in, &edges.terms_out, &edges.results_in, &edges.results_out}) {
      for (const auto& [peer, edge] : *some) flows.push_back(edge.flow);
    }
    Part part = given_.begin(rank, flows);
    const std::unique_ptr<TermMaker> maker = makes() ? given_.maker(part) : nullptr;
    for (const Event& event : events_of(rank)) {
      const Unit& unit = units_.of(event.column)[event.unit];
      if (maker != nullptr) {
        maker->make_until(part, event.time);
        if (event.step != Step::kTake) maker->await(part, unit);
      }
      if (event.step == Step::kGive) {
        const Edge& to = edges.terms_out.at(units_.carrier(hosts_.of(rank), event.column));
        put_chunk(part, to.flow, event.unit, given_.in(rank, unit), /*after_all=*/makes());
      } else if (event.step == Step::kSum) {
        sum(part, edges, event.column, event.unit);
      } else {
        take(part, edges, event.column, event.unit);
      }
    }
    return part.finish();
  }

  // What a sum is made of, in rank order.
  struct Terms {
    std::vector<Region> regions;
    std::vector<Wait> waits;
    std::vector<Post> credits;

    void add(const Flow& flow, uint32_t chunk) {
      waits.push_back(arrival_of(flow, chunk));
      if (const std::optional<Post> credit = credit_of(flow, chunk)) credits.push_back(*credit);
    }
    // Next to the one before where they lie so.
    void add(Region region) {
      if (!regions.empty()) {
        Region& before = regions.back();
        if (before.buffer + before.buffer_count == region.buffer &&
            before.offset == region.offset && before.row_bytes == region.row_bytes) {
          ++before.buffer_count;
          return;
        }
      }
      regions.push_back(region);
    }
  };

  Terms terms_of(Part& part, const Edges& edges, uint32_t u, const Unit& unit) const {
    const uint32_t rank = part.rank(), host = hosts_.of(rank);
    Terms all;
    if (host > 0) {
      const Flow& before = edges.terms_in.at(units_.carrier(host - 1, hosts_.place(rank))).flow;
      all.add(before, u);
      all.regions.push_back(slot_of(before, u, kRead));
    }
    bool first = true;
    for (const uint32_t each : hosts_.on(host)) {
      Terms own;
      Region term = given_.in(rank, unit);
      if (each != rank) {
        const Flow& flow = edges.terms_in.at(each).flow;
        (widens() ? own : all).add(flow, u);
        term = slot_of(flow, u, kRead);
      }
      if (widens()) {
        const Region wide = flat(wide_ + rank * hosts_.largest() + hosts_.place(each), 0,
                                 unit.count * sum_bytes_, kWrite);
        part.reduce(0, {term, wide}, given_.dtype, sum_dtype_, given_.redop,
                    /*after_all=*/std::exchange(first, false), own.waits, own.credits, kTakeInputs);
        term = wide;
        term.access = kRead;
      }
      all.add(term);
    }
    return all;
  }

  void sum(Part& part, const Edges& edges, uint32_t column, uint32_t u) const {
    const Unit& unit = units_.of(column)[u];
    const uint32_t rank = part.rank(), host = hosts_.of(rank);
    Terms all = terms_of(part, edges, u, unit);
    const Region place = flat(sums_ + rank, u % slots_ * sum_slot_,
                              unit.count * (host == last() ? out_bytes_ : sum_bytes_), kWrite);
    if (host == last()) return finish_sum(part, edges, all, u, unit, place);
    const Flow& up = edges.terms_out.at(units_.carrier(host + 1, column)).flow;
    if (host == 0 && hosts_.size(0) == 1 && !widens()) {
      return put_chunk(part, up, u, given_.in(rank, unit), makes());
    }
    // The put of the unit before began once those before it had read their places of `sums_`.
    add_sum(part, all, place, sum_dtype_, /*after_all=*/widens() || makes());
    put_chunk(part, up, u, place, /*after_all=*/true);
  }

  // Puts read one row: a result that has several where it belongs goes from a place of `sums_`.
  void finish_sum(Part& part, const Edges& edges, Terms& terms, uint32_t u, const Unit& unit,
                  Region place) const {
    const uint32_t rank = part.rank();
    const bool wants = units_.wants(unit, rank);
    const Region own = wants ? given_.out(rank, unit) : place;
    const bool at_once = wants && own.rows == 1;
    // A place of `sums_` may still be read by a put to another rank.
    add_sum(part, terms, at_once ? own : place, given_.out_dtype,
            /*after_all=*/widens() || makes() || !at_once);
    hand_on(part, edges, u, at_once ? own : place);
    if (wants && !at_once) part.copy(0, rows_like(own, place), own);  // Starts later than its puts.
  }

  void add_sum(Part& part, Terms& terms, Region to, DType dtype, bool after_all) const {
    terms.regions.push_back(to);
    part.reduce(0, terms.regions, sum_dtype_, dtype, given_.redop, after_all, terms.waits,
                terms.credits, kTakeInputs);
  }

  // To those whose giver this rank is, of results that the task before has made.
  void hand_on(Part& part, const Edges& edges, uint32_t u, Region result) const {
    bool first = true;  // The others start later.
    for (const Onward& onward : takers(edges, part.rank(), u)) {
      put_chunk(part, *onward.flow, onward.chunk, result, std::exchange(first, false));
    }
  }
  std::vector<Onward> takers(const Edges& edges, uint32_t rank, uint32_t u) const {
    const uint32_t column = hosts_.place(rank);
    std::vector<Onward> found;
    const auto add = [&](bool local) {
      for (const auto& [to, edge] : edges.results_out) {
        if ((hosts_.of(to) == hosts_.of(rank)) != local) continue;
        if (units_.giver(column, units_.of(column)[u], to) != rank) continue;
        found.push_back({&edge.flow, edge.chunk_of[u]});
      }
    };
    add(/*local=*/false);  // Who has the longer way first.
    add(/*local=*/true);
    return found;
  }

  void take(Part& part, const Edges& edges, uint32_t column, uint32_t u) const {
    const Unit& unit = units_.of(column)[u];
    const uint32_t rank = part.rank();
    const Edge& in = edges.results_in.at(units_.giver(column, unit, rank));
    std::vector<Onward> out;
    if (!given_.scatters && rank == units_.carrier(hosts_.of(rank), column))
      out = takers(edges, rank, u);
    hand_on_chunk(part, in.flow, in.chunk_of[u], out, given_.out(rank, unit));
  }

  Layout& layout_;
  const Hosts& hosts_;
  const HostSums& given_;
  const SumUnits& units_;
  uint64_t in_bytes_, out_bytes_;
  DType sum_dtype_;
  uint64_t sum_bytes_;
  uint32_t slots_;
  uint64_t sum_slot_, result_slot_;
  uint32_t results_, terms_, sums_;
  uint32_t wide_;  // Where elements are narrower than sums: of each rank of the host.
};

}  // namespace

uint32_t slots_along_hosts(const Target& target) {
  return std::clamp(target.slot_count, kSlotsMin, kSlotsMax);
}

// Terms and results, each with arrivals and credits.
uint32_t lanes_along_hosts(const Target& target) { return 4 * slots_along_hosts(target); }

Plan sum_along_hosts(Layout& layout, const Hosts& hosts, const HostSums& sums, Ranks ranks) {
  return SumAlongHosts(layout, hosts, sums).plan(ranks);
}

Plan sum_along_hosts(const OpDesc& op, const Target& target, Ranks ranks) {
  Layout layout(op, target);
  const VectorCall call = layout.call();
  const Hosts hosts(target);
  const uint64_t bytes = layout.element_bytes(), count = uint64_t(call.count);
  const bool scatters = op.kind() == OpKind::kReduceScatter;
  const uint8_t operand = call.in_place && !scatters ? 1 : 0;
  const uint32_t in = layout.add_operand(call.in_place ? BufferKind::kInOut : BufferKind::kInput,
                                         BufferAccess::kLocal, operand,
                                         count * bytes * (scatters ? layout.ranks() : 1));
  const uint32_t out = call.in_place ? in
                                     : layout.add_operand(BufferKind::kOutput, BufferAccess::kLocal,
                                                          1, count * bytes);
  const HostSums sums = {
      .units = SumUnits(layout, hosts, dtype_bytes(accumulator(call.dtype))),
      .dtype = call.dtype,
      .out_dtype = call.dtype,
      .redop = call.redop,
      .scatters = scatters,
      .in =
          [&](uint32_t rank, const SumUnits::Unit& unit) {
            return flat(in + rank, unit.in * bytes, unit.count * bytes, kRead);
          },
      .out =
          [&](uint32_t rank, const SumUnits::Unit& unit) {
            const uint64_t first = scatters && call.in_place ? rank * count : 0;
            return flat(out + rank, (first + unit.out) * bytes, unit.count * bytes, kWrite);
          },
      .begin = [&](uint32_t rank,
                   const std::vector<Flow>& flows) { return begin_part(layout, rank, flows); }};
  return sum_along_hosts(layout, hosts, sums, ranks);
}

}  // namespace sk::algo
