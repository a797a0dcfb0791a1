#include "lib/topo/graph.h"

#include <algorithm>
#include <array>

namespace sk::topo {
namespace {

constexpr std::array<const char*, kNodeKindCount> kNodeNames = {
    "machine", "socket", "numa", "cache", "core", "gpu", "nic", "switch", "device"};
constexpr std::array<const char*, kLinkKindCount> kLinkNames = {"contains", "pcie", "numa",
                                                                "nvlink",   "xgmi", "network"};

template <typename Kind, size_t n>
bool find_name(const std::array<const char*, n>& names, std::string_view name, Kind* out) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return false;
  *out = Kind(it - names.begin());
  return true;
}

}  // namespace

const char* kind_name(NodeKind kind) { return kNodeNames[size_t(kind)]; }
const char* kind_name(LinkKind kind) { return kLinkNames[size_t(kind)]; }
bool kind_from_name(std::string_view name, NodeKind* out) {
  return find_name(kNodeNames, name, out);
}
bool kind_from_name(std::string_view name, LinkKind* out) {
  return find_name(kLinkNames, name, out);
}

Status LinkChecker::accept(const Link& link) {
  const auto wrong = [](const std::string& what) { return Status(SK_ERR_INVALID_ARGUMENT, what); };
  if (link.a >= link.b || link.b >= held_.size()) {
    return wrong(
        fmt::format("joins {} and {}: the first must be less than the second, and that "
                    "less than {}",
                    link.a, link.b, held_.size()));
  }
  if (link.bandwidth == 0) return wrong("has no bandwidth");
  if (seen_.size() == kLinkCountMax) return wrong(fmt::format("is one more than {}", seen_.size()));
  if (!seen_.emplace(link.a, link.b, link.kind).second) {
    return wrong(fmt::format("joins {} and {} as another of its kind does", link.a, link.b));
  }
  if (link.kind != LinkKind::kContains) return {};
  if (held_[link.b]) return wrong(fmt::format("puts node {} into a second one", link.b));
  held_[link.b] = true;
  return {};
}

Status check(const Graph& graph) {
  if (graph.nodes.size() > kNodeCountMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "the topology has {} nodes: at most {} are allowed",
                 graph.nodes.size(), kNodeCountMax);
  }
  LinkChecker checker(graph.nodes.size());
  for (size_t i = 0; i < graph.links.size(); ++i) {
    SK_RETURN_IF_ERROR(
        checker.accept(graph.links[i]).with_context(fmt::format("link {} of the topology", i)));
  }
  return {};
}

std::vector<uint32_t> parents(const Graph& graph) {
  std::vector<uint32_t> out(graph.nodes.size(), kNoNode);
  for (const Link& link : graph.links) {
    if (link.kind == LinkKind::kContains) out[link.b] = link.a;
  }
  return out;
}

Summary summarize(const Graph& graph) {
  Summary out;
  for (const Node& node : graph.nodes) {
    out.threads += node.threads;
    switch (node.kind) {
      case NodeKind::kMachine:
        ++out.hosts;
        break;
      case NodeKind::kSocket:
        ++out.sockets;
        break;
      case NodeKind::kNuma:
        ++out.numa_nodes;
        out.memory_bytes += node.bytes;
        break;
      case NodeKind::kCore:
        ++out.cores;
        break;
      case NodeKind::kGpu:
        ++out.gpus;
        break;
      case NodeKind::kNic:
        ++out.nics;
        break;
      case NodeKind::kCache:
      case NodeKind::kSwitch:
      case NodeKind::kDevice:
        break;
    }
  }
  return out;
}

uint32_t add_node(Graph& graph, Node node, uint32_t parent, uint32_t latency_ns, uint64_t bandwidth,
                  LinkKind kind) {
  const uint32_t id = uint32_t(graph.nodes.size());
  graph.nodes.push_back(std::move(node));
  if (parent != kNoNode) add_link(graph, parent, id, kind, latency_ns, bandwidth);
  return id;
}

void add_link(Graph& graph, uint32_t a, uint32_t b, LinkKind kind, uint32_t latency_ns,
              uint64_t bandwidth) {
  graph.links.push_back({std::min(a, b), std::max(a, b), kind, latency_ns, bandwidth});
}

}  // namespace sk::topo
