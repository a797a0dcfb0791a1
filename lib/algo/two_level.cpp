#include "lib/algo/two_level.h"

#include <algorithm>

#include "lib/algo/large_worlds.h"
#include "lib/algo/layout.h"
#include "lib/algo/sum_along_hosts.h"
#include "lib/op/tile_layout.h"

namespace sk::algo {
namespace {

// What a link carries in the time of one crossing: some 25 microseconds at 10 Gbit/s. A constant,
// for all ranks must choose alike, before any of them has measured anything. Of a link on which a
// crossing costs F times as much, the sizes from which on other forms are taken are off by F; what
// they compute is not.
constexpr uint64_t kCrossingBytes = 32 << 10;
// So often a rank of a flat all-reduce touches a message's bytes: its own, what it gets, the
// results.
constexpr uint64_t kFlatTouches = 7;
// A message that is put whole is not reduced before all of it is there.
constexpr uint64_t kWholeBytesMax = 64 << 10;

// How much of its time a form takes of the busiest link, in bytes: what passes there in its busier
// direction, and what passes could while crossings wait for one another.
uint64_t cost(uint64_t bytes, uint64_t crossings) { return bytes + crossings * kCrossingBytes; }
// What the busiest rank loads and stores, as bytes of a link of 10 Gbit/s.
uint64_t local_cost(uint64_t bytes) { return bytes / 8; }

struct Message {
  const Hosts& hosts;
  uint64_t bytes;      // Of an input of a sum, or of a result's.
  uint64_t sum_bytes;  // The same, as sums travel.

  // The most of f(ranks of a host).
  template <typename Of>
  uint64_t most(const Of& of) const {
    uint64_t most = 0;
    for (uint32_t host = 0; host < hosts.count(); ++host)
      most = std::max(most, uint64_t(of(uint64_t(hosts.size(host)))));
    return most;
  }
  uint64_t ranks() const { return hosts.ranks(); }

  // Of an all-reduce: elements to the owner of each slice, and sums back.
  uint64_t flat_sums() const {
    return cost(most([&](uint64_t own) { return 2 * own * (ranks() - own) * bytes / ranks(); }),
                2) +
           local_cost(kFlatTouches * bytes);
  }
  uint64_t whole_sums() const {
    return cost(most([&](uint64_t own) {
                  return std::max(own * (hosts.count() - 1), ranks() - own) * bytes;
                }),
                1);
  }
  // Between two hosts sums go one way and results the other. As many ranks of each host as the
  // smallest has join what all of theirs have.
  uint64_t sums_along_hosts() const { return sums_along_hosts(bytes); }
  uint64_t sums_along_hosts(uint64_t joined_bytes) const {
    const uint64_t joined = 3 * uint64_t(hosts.largest()) * joined_bytes / hosts.smallest();
    return cost(sum_bytes + (hosts.count() > 2 ? bytes : 0), 2 * hosts.last()) + local_cost(joined);
  }
  // Of products, whose tiles travel as partial ones until they are joined.
  uint64_t flat_products(uint64_t partial_bytes) const {
    return cost(most([&](uint64_t own) {
                  return own * (ranks() - own) * (partial_bytes + bytes) / ranks();
                }),
                2) +
           local_cost(4 * partial_bytes + 3 * bytes);
  }
  // Of a reduce-scatter, whose results are its inputs' blocks.
  uint64_t flat_scatter() const {
    return cost(most([&](uint64_t own) { return own * (ranks() - own) * bytes / ranks(); }), 1);
  }
  uint64_t scatter_along_hosts() const {
    const uint64_t results =
        hosts.count() > 2 ? most([&](uint64_t own) { return own * bytes / ranks(); }) : 0;
    return cost(sum_bytes + results, hosts.count());
  }
  uint64_t once_per_host() const { return cost(hosts.last() * bytes, 1); }
  uint64_t from_host_to_host() const { return cost(bytes, hosts.last()); }
  // Between two hosts both cost the link the same. From host to host a large message comes in as
  // many strands as there are ranks to take them, a small one in as few messages as can be.
  bool is_broadcast_once() const {
    const uint64_t once = once_per_host(), along = from_host_to_host();
    return once == along ? hosts.smallest() == 1 || bytes <= kWholeBytesMax : once < along;
  }
};

constexpr const char* kScattered = "the ranks of a host do not follow one another";
constexpr const char* kAverage = "an average is made of all ranks' elements at once";
constexpr const char* kMany = "so many ranks go from each to the next one, host by host";
constexpr const char* kManyScattered =
    "sums of so many ranks go from each to the next one in rank order, in which hosts take turns";
constexpr const char* kProductsOfMany = "products of so many ranks have no other form";
constexpr const char* kFewSignals = "two ranks have too few signals for what passes between them";
constexpr const char* kRefused = "its plan in two levels was refused";
constexpr const char* kCheaper = "that costs less at this size";

Choice choose_allreduce(const Message& message, bool average, uint64_t put_bytes_max) {
  const bool whole = message.bytes <= std::min(kWholeBytesMax, put_bytes_max);
  const bool along = message.hosts.in_order() && !average;
  const uint64_t flat = message.flat_sums(), by_whole = message.whole_sums(),
                 by_hosts = message.sums_along_hosts();
  if (whole && by_whole < flat && (!along || by_whole <= by_hosts)) return {Levels::kWhole};
  if (along && by_hosts < flat) return {Levels::kAlongHosts};
  return {Levels::kFlat, average ? kAverage : !message.hosts.in_order() ? kScattered : kCheaper};
}

// Every form has the products; along hosts their sums are written and read once more. Partial tiles
// take as much as one of all of C, or more: into which ones it is cut follows from the form.
Choice choose_allreduce_gemm(const Message& message, uint64_t partial_bytes, bool has_lanes) {
  if (!message.hosts.in_order()) return {Levels::kFlat, kScattered};
  if (!has_lanes) return {Levels::kFlat, kFewSignals};
  if (message.sums_along_hosts(message.sum_bytes) + local_cost(message.sum_bytes) <
      message.flat_products(partial_bytes)) {
    return {Levels::kAlongHosts};
  }
  return {Levels::kFlat, kCheaper};
}

Choice choose_reduce_scatter(const Message& message, bool average, uint64_t put_bytes_max) {
  if (!message.hosts.in_order()) return {Levels::kFlat, kScattered};
  const uint64_t of_host = message.hosts.largest() * message.bytes / message.ranks();
  const uint64_t flat = message.flat_scatter(), by_hosts = message.scatter_along_hosts();
  if (!average && by_hosts < flat) return {Levels::kAlongHosts};
  // As many bytes as flat, in fewer messages.
  if (of_host <= std::min(kWholeBytesMax, put_bytes_max)) return {Levels::kWhole};
  return {Levels::kFlat, average ? kAverage : kCheaper};
}

}  // namespace

Choice choose_levels(const OpDesc& op, const Target& target) {
  if (target.host_of.empty() || target.mapped || is_pair(op) || is_local(op)) return {};
  const Hosts hosts(target);
  if (!hosts.shared()) return {};
  const OpKind kind = op.kind();
  if (kind == OpKind::kBarrier) return {};
  if (target.one_level) return {Levels::kFlat, kRefused};
  if (is_product(op.schema())) {
    if (is_large(target)) {
      const bool passes = kind == OpKind::kAllgatherGemm && allgather_gemm_ring_does(op, target);
      return {Levels::kFlat, passes ? kMany : kProductsOfMany};
    }
    const GemmCall call = gemm_call(op);
    if (call.k == 0 && kind == OpKind::kAllgatherGemm) return {};
    if (kind == OpKind::kAllgatherGemm) return {Levels::kOncePerHost};
    const uint64_t m = uint64_t(call.m), n = uint64_t(call.n);
    const uint64_t sum_bytes = dtype_bytes(accumulator(call.dtype));
    return choose_allreduce_gemm({hosts, m * n * dtype_bytes(call.out_dtype), m * n * sum_bytes},
                                 partial_tile_bytes(m, n, sum_bytes),
                                 target.edge_signals_max >= lanes_along_hosts(target));
  }
  if (is_large(target)) {
    const bool sums = kind == OpKind::kAllreduce || kind == OpKind::kReduceScatter;
    return {Levels::kFlat, sums && !hosts.in_order() ? kManyScattered : kMany};
  }
  if (kind != OpKind::kAllreduce && kind != OpKind::kReduceScatter && kind != OpKind::kAllgather &&
      kind != OpKind::kBroadcast) {
    return {Levels::kFlat, "this operation has no other form"};
  }
  const VectorCall call = vector_call(op);
  const uint64_t count = uint64_t(call.count);
  const uint64_t elements = kind == OpKind::kReduceScatter ? count * target.world_size : count;
  const Message message{hosts, elements * dtype_bytes(call.dtype),
                        elements * dtype_bytes(accumulator(call.dtype))};
  const bool average = call.redop == RedOp::kAvg;
  if (kind == OpKind::kAllreduce) return choose_allreduce(message, average, target.put_bytes_max);
  if (kind == OpKind::kReduceScatter)
    return choose_reduce_scatter(message, average, target.put_bytes_max);
  return {kind == OpKind::kAllgather || message.is_broadcast_once() ? Levels::kOncePerHost
                                                                    : Levels::kAlongHosts};
}

std::optional<Plan> plan_in_levels(const OpDesc& op, const Target& target, Ranks ranks) {
  const Levels levels = choose_levels(op, target).levels;
  if (levels == Levels::kFlat) return std::nullopt;
  const OpKind kind = op.kind();
  if (kind == OpKind::kAllreduceGemm) return allreduce_gemm_along_hosts(op, target, ranks);
  if (kind == OpKind::kAllgather || kind == OpKind::kBroadcast)
    return relay(op, target, ranks, levels);
  return levels == Levels::kWhole ? sum_whole(op, target, ranks)
                                  : sum_along_hosts(op, target, ranks);
}

}  // namespace sk::algo
