#include "lib/topo/path.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace sk::topo {
namespace {

struct Hop {
  uint32_t to;
  uint32_t latency_ns;
  uint64_t bandwidth;
};

// The links of every node, one node's after the other's.
class Neighbours {
 public:
  explicit Neighbours(const Graph& graph) : first_(graph.nodes.size() + 1) {
    for (const Link& link : graph.links) {
      ++first_[link.a + 1];
      ++first_[link.b + 1];
    }
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    hops_.resize(graph.links.size() * 2);
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    for (const Link& link : graph.links) {
      hops_[next[link.a]++] = {link.b, link.latency_ns, link.bandwidth};
      hops_[next[link.b]++] = {link.a, link.latency_ns, link.bandwidth};
    }
  }
  const Hop* begin(uint32_t node) const { return hops_.data() + first_[node]; }
  const Hop* end(uint32_t node) const { return hops_.data() + first_[node + 1]; }

 private:
  std::vector<size_t> first_;
  std::vector<Hop> hops_;
};

// Less is better. Two orders, one search: with latency first the rest of an optimal path is
// optimal too; with bandwidth first only the bandwidth is used (see highest_bandwidth).
struct Cost {
  uint64_t latency_ns = 0;
  uint64_t bandwidth = UINT64_MAX;
};
bool by_latency(const Cost& a, const Cost& b) {
  return a.latency_ns != b.latency_ns ? a.latency_ns < b.latency_ns : a.bandwidth > b.bandwidth;
}
bool by_bandwidth(const Cost& a, const Cost& b) { return a.bandwidth > b.bandwidth; }

using Better = bool (*)(const Cost&, const Cost&);

bool forwards(NodeKind kind) { return kind != NodeKind::kCore && kind != NodeKind::kGpu; }

// Dijkstra's search over the links of at least `bandwidth_min`.
std::optional<Path> search(const Graph& graph, uint32_t from, uint32_t to, uint64_t bandwidth_min,
                           Better better) {
  if (from >= graph.nodes.size() || to >= graph.nodes.size()) return std::nullopt;
  const Neighbours neighbours(graph);
  std::vector<std::optional<Cost>> best(graph.nodes.size());
  std::vector<uint32_t> before(graph.nodes.size(), kNoNode);
  std::vector<bool> done(graph.nodes.size());
  using Entry = std::pair<Cost, uint32_t>;
  const auto worse = [&](const Entry& a, const Entry& b) {
    if (better(a.first, b.first)) return false;
    return better(b.first, a.first) || a.second > b.second;
  };
  std::priority_queue<Entry, std::vector<Entry>, decltype(worse)> open(worse);
  best[from] = Cost{};
  open.push({Cost{}, from});
  while (!open.empty() && !done[to]) {
    const uint32_t node = open.top().second;
    open.pop();
    if (done[node]) continue;
    done[node] = true;
    if (node != from && !forwards(graph.nodes[node].kind)) continue;
    for (const Hop* hop = neighbours.begin(node); hop != neighbours.end(node); ++hop) {
      if (done[hop->to] || hop->bandwidth < bandwidth_min) continue;
      const Cost cost = {best[node]->latency_ns + hop->latency_ns,
                         std::min(best[node]->bandwidth, hop->bandwidth)};
      if (best[hop->to] && !better(cost, *best[hop->to])) continue;
      best[hop->to] = cost;
      before[hop->to] = node;
      open.push({cost, hop->to});
    }
  }
  if (!done[to]) return std::nullopt;
  Path path{{}, best[to]->latency_ns, best[to]->bandwidth};
  for (uint32_t node = to; node != kNoNode; node = before[node]) path.nodes.push_back(node);
  std::reverse(path.nodes.begin(), path.nodes.end());
  return path;
}

}  // namespace

std::optional<Path> lowest_latency(const Graph& graph, uint32_t from, uint32_t to) {
  return search(graph, from, to, 0, by_latency);
}

// In two steps: what follows the first node of a best path in (bandwidth, latency) need not be one
// itself, so a single search in that order could miss it.
std::optional<Path> highest_bandwidth(const Graph& graph, uint32_t from, uint32_t to) {
  const std::optional<Path> widest = search(graph, from, to, 0, by_bandwidth);
  if (!widest) return std::nullopt;
  return search(graph, from, to, widest->bandwidth, by_latency);
}

}  // namespace sk::topo
