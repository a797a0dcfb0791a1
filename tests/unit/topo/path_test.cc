// Paths against the enumeration of all of them, on graphs small enough for it.
#include "lib/topo/path.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/topo/synthetic.h"
#include "tests/unit/topo/random_graph.h"

namespace sk::topo {
namespace {

using testing_support::random_graph;

bool forwards(const Graph& graph, uint32_t node) {
  return graph.nodes[node].kind != NodeKind::kCore && graph.nodes[node].kind != NodeKind::kGpu;
}

struct Ends {
  std::vector<std::pair<uint64_t, uint64_t>> costs;  // Latency and bandwidth of every path.
};

void enumerate(const Graph& graph, uint32_t at, uint32_t to, std::vector<bool>& visited,
               uint64_t latency_ns, uint64_t bandwidth, Ends& ends) {
  if (at == to) return ends.costs.emplace_back(latency_ns, bandwidth), void();
  const bool first = std::count(visited.begin(), visited.end(), true) == 1;
  if (!first && !forwards(graph, at)) return;
  for (const Link& link : graph.links) {
    if (link.a != at && link.b != at) continue;
    const uint32_t next = link.a == at ? link.b : link.a;
    if (visited[next]) continue;
    visited[next] = true;
    enumerate(graph, next, to, visited, latency_ns + link.latency_ns,
              std::min(bandwidth, link.bandwidth), ends);
    visited[next] = false;
  }
}

// The path's links exist and give its cost.
void expect_real(const Graph& graph, const Path& path, uint32_t from, uint32_t to) {
  ASSERT_FALSE(path.nodes.empty());
  EXPECT_EQ(path.nodes.front(), from);
  EXPECT_EQ(path.nodes.back(), to);
  std::vector<std::pair<uint64_t, uint64_t>> reachable = {{0, UINT64_MAX}};
  for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
    std::vector<std::pair<uint64_t, uint64_t>> next;
    const auto [a, b] = std::minmax(path.nodes[i], path.nodes[i + 1]);
    for (const Link& link : graph.links) {
      if (link.a != a || link.b != b) continue;
      for (const auto& [latency_ns, bandwidth] : reachable) {
        next.emplace_back(latency_ns + link.latency_ns, std::min(bandwidth, link.bandwidth));
      }
    }
    reachable = next;
  }
  const std::pair<uint64_t, uint64_t> cost = {path.latency_ns, path.bandwidth};
  EXPECT_TRUE(std::find(reachable.begin(), reachable.end(), cost) != reachable.end());
}

TEST(TopoPath, IsTheBestOfAll) {
  int found = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random, 8);
    if (graph.nodes.empty()) continue;
    const auto from = uint32_t(random() % graph.nodes.size());
    const auto to = uint32_t(random() % graph.nodes.size());
    Ends ends;
    std::vector<bool> visited(graph.nodes.size());
    visited[from] = true;
    enumerate(graph, from, to, visited, 0, UINT64_MAX, ends);
    const auto fast = lowest_latency(graph, from, to);
    const auto wide = highest_bandwidth(graph, from, to);
    ASSERT_EQ(fast.has_value(), !ends.costs.empty());
    ASSERT_EQ(wide.has_value(), !ends.costs.empty());
    if (ends.costs.empty()) continue;
    ++found;
    const auto best_fast =
        *std::min_element(ends.costs.begin(), ends.costs.end(), [](const auto& a, const auto& b) {
          return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
    const auto best_wide =
        *std::min_element(ends.costs.begin(), ends.costs.end(), [](const auto& a, const auto& b) {
          return a.second != b.second ? a.second > b.second : a.first < b.first;
        });
    EXPECT_EQ(std::make_pair(fast->latency_ns, fast->bandwidth), best_fast);
    EXPECT_EQ(std::make_pair(wide->latency_ns, wide->bandwidth), best_wide);
    expect_real(graph, *fast, from, to);
    expect_real(graph, *wide, from, to);
  }
  EXPECT_GT(found, 100);
}

TEST(TopoPath, NodesThatDoNotExistHaveNone) {
  const auto graph = synthesize("cores:2");
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(lowest_latency(graph.value(), 0, 99).has_value());
  EXPECT_FALSE(highest_bandwidth(graph.value(), 99, 0).has_value());
  EXPECT_FALSE(lowest_latency(Graph{}, 0, 0).has_value());
}

TEST(TopoPath, GpusOfAHostMeetAtTheirSwitchAndHostsAtTheirs) {
  const auto made = synthesize("hosts:2 numa:2 cores:8 gpus:4 nics:2");
  ASSERT_TRUE(made.ok());
  const Graph& graph = made.value();
  std::vector<uint32_t> gpus;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::kGpu) gpus.push_back(i);
  }
  ASSERT_EQ(gpus.size(), 8u);
  const auto inside = highest_bandwidth(graph, gpus[0], gpus[3]);
  ASSERT_TRUE(inside.has_value());
  EXPECT_EQ(inside->nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[inside->nodes[1]].name, "NVSwitch");
  const auto across = highest_bandwidth(graph, gpus[0], gpus[4]);
  ASSERT_TRUE(across.has_value());
  const bool over_network =
      std::any_of(across->nodes.begin(), across->nodes.end(),
                  [&](uint32_t node) { return graph.nodes[node].name == "network"; });
  EXPECT_TRUE(over_network);
}

}  // namespace
}  // namespace sk::topo
