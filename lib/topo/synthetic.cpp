#include "lib/topo/synthetic.h"

#include <array>
#include <charconv>
#include <optional>

#include "lib/topo/typical.h"

namespace sk::topo {
namespace {

enum Key { kHosts, kSockets, kNumaNodes, kCores, kThreads, kMemoryGib, kGpus, kNics, kKeyCount };

struct KeyRule {
  std::string_view name;
  int64_t least;
  int64_t most;
};
constexpr std::array<KeyRule, kKeyCount> kRules = {{{"hosts", 1, 16384},
                                                    {"sockets", 1, 64},
                                                    {"numa", 1, 256},
                                                    {"cores", 1, 4096},
                                                    {"threads", 1, 16},
                                                    {"memory", 0, 1 << 20},
                                                    {"gpus", 0, 256},
                                                    {"nics", 0, 256}}};

using Numbers = std::array<std::optional<int64_t>, kKeyCount>;

Status read_word(std::string_view word, size_t column, Numbers& numbers) {
  const auto wrong = [&](const std::string& what) {
    return error(SK_ERR_INVALID_ARGUMENT, "column {}: {}", column, what);
  };
  const size_t colon = word.find(':');
  const std::string_view name = word.substr(0, colon);
  for (size_t i = 0; i < kRules.size(); ++i) {
    const KeyRule& rule = kRules[i];
    if (name != rule.name) continue;
    const std::string_view digits =
        colon == std::string_view::npos ? std::string_view() : word.substr(colon + 1);
    int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, code] = std::from_chars(digits.data(), end, value);
    if (digits.empty() || code != std::errc() || stop != end || value < rule.least ||
        value > rule.most) {
      return wrong(fmt::format("{} is \"{}\": it must be a number from {} to {}, after a colon",
                               name, digits.substr(0, 40), rule.least, rule.most));
    }
    if (numbers[i]) return wrong(fmt::format("{} comes twice", name));
    numbers[i] = value;
    return {};
  }
  return wrong(
      fmt::format("\"{}\" is none of hosts, sockets, numa, cores, threads, memory, gpus, "
                  "nics",
                  name.substr(0, 40)));
}

struct Shape {
  int64_t hosts, sockets, numa, cores, threads, memory, gpus, nics;
};

Result<Shape> read_spec(std::string_view spec) {
  Numbers numbers;
  for (size_t at = 0; at < spec.size();) {
    if (spec[at] == ' ' || spec[at] == '\t') {
      ++at;
      continue;
    }
    const size_t end = std::min(spec.find_first_of(" \t", at), spec.size());
    SK_RETURN_IF_ERROR(read_word(spec.substr(at, end - at), at + 1, numbers));
    at = end;
  }
  Shape shape;
  shape.hosts = numbers[kHosts].value_or(1);
  shape.sockets = numbers[kSockets].value_or(1);
  shape.numa = numbers[kNumaNodes].value_or(shape.sockets);
  shape.cores = numbers[kCores].value_or(shape.numa);
  shape.threads = numbers[kThreads].value_or(1);
  shape.memory = numbers[kMemoryGib].value_or(16);
  shape.gpus = numbers[kGpus].value_or(0);
  shape.nics = numbers[kNics].value_or(shape.hosts > 1 ? 1 : 0);
  if (shape.numa % shape.sockets != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "numa is {}: it must be a multiple of the {} sockets",
                 shape.numa, shape.sockets);
  }
  if (shape.cores < shape.numa) {
    return error(SK_ERR_INVALID_ARGUMENT, "cores is {}: it must be at least numa, {}", shape.cores,
                 shape.numa);
  }
  const int64_t per_host = shape.sockets + shape.numa + 2 * shape.cores + shape.gpus + shape.nics;
  const int64_t links_per_host = per_host + shape.gpus + shape.nics + shape.numa * shape.numa;
  if (shape.hosts * (per_host + 8) > int64_t(kNodeCountMax) ||
      shape.hosts * (links_per_host + 8) > int64_t(kLinkCountMax)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} hosts of this shape are more than {} nodes or {} links", shape.hosts,
                 kNodeCountMax, kLinkCountMax);
  }
  return shape;
}

Node make(NodeKind kind, int64_t index) {
  Node node;
  node.kind = kind;
  node.index = index;
  return node;
}

void add_devices(Graph& graph, const Shape& shape, const std::vector<uint32_t>& numa_nodes,
                 uint32_t machine, uint32_t network) {
  const auto home = [&](int64_t i, int64_t count) {
    return numa_nodes[size_t(i * shape.numa / count)];
  };
  const uint32_t nvswitch = shape.gpus > 1 ? add_node(graph, make(NodeKind::kSwitch, 0), machine,
                                                      kPcieHop.latency_ns, kPcieHop.bandwidth)
                                           : kNoNode;
  if (nvswitch != kNoNode) graph.nodes[nvswitch].name = "NVSwitch";
  for (int64_t i = 0; i < shape.gpus; ++i) {
    const uint32_t gpu = add_node(graph, make(NodeKind::kGpu, i), home(i, shape.gpus),
                                  kPcieHop.latency_ns, 2 * kPcieHop.bandwidth);
    if (nvswitch == kNoNode) continue;
    add_link(graph, nvswitch, gpu, LinkKind::kNvlink, kNvlinkHop.latency_ns,
             18 * kNvlinkHop.bandwidth);
  }
  for (int64_t i = 0; i < shape.nics; ++i) {
    const uint32_t nic = add_node(graph, make(NodeKind::kNic, i), home(i, shape.nics),
                                  kPcieHop.latency_ns, 2 * kPcieHop.bandwidth);
    if (network == kNoNode) continue;
    add_link(graph, network, nic, LinkKind::kNetwork, kNetworkHop.latency_ns,
             kNetworkHop.bandwidth);
  }
}

void add_host(Graph& graph, const Shape& shape, int64_t host, uint32_t network) {
  Node machine_node = make(NodeKind::kMachine, host);
  machine_node.name = fmt::format("host{}", host);
  const uint32_t machine = add_node(graph, std::move(machine_node));
  std::vector<uint32_t> numa_nodes;
  int64_t core = 0;
  for (int64_t s = 0; s < shape.sockets; ++s) {
    const uint32_t socket = add_node(graph, make(NodeKind::kSocket, s), machine,
                                     kMachineSocket.latency_ns, kMachineSocket.bandwidth);
    for (int64_t n = 0; n < shape.numa / shape.sockets; ++n) {
      Node numa_node = make(NodeKind::kNuma, int64_t(numa_nodes.size()));
      numa_node.bytes = uint64_t(shape.memory) << 30;
      const uint32_t numa = add_node(graph, std::move(numa_node), socket, kSocketNuma.latency_ns,
                                     kSocketNuma.bandwidth);
      numa_nodes.push_back(numa);
      const int64_t end = int64_t(numa_nodes.size()) * shape.cores / shape.numa;
      for (; core < end; ++core) {
        Node core_node = make(NodeKind::kCore, core);
        core_node.threads = uint32_t(shape.threads);
        add_node(graph, std::move(core_node), numa, kMemory.latency_ns, kMemory.bandwidth);
      }
    }
  }
  for (size_t i = 0; i < numa_nodes.size(); ++i) {
    for (size_t j = i + 1; j < numa_nodes.size(); ++j) {
      add_link(graph, numa_nodes[i], numa_nodes[j], LinkKind::kNuma, kNumaNuma.latency_ns,
               kNumaNuma.bandwidth);
    }
  }
  add_devices(graph, shape, numa_nodes, machine, network);
}

}  // namespace

Result<Graph> synthesize(std::string_view spec) {
  SK_ASSIGN_OR_RETURN(const Shape shape, read_spec(spec));
  Graph graph;
  uint32_t network = kNoNode;
  if (shape.hosts > 1) {
    Node node = make(NodeKind::kSwitch, 0);
    node.name = "network";
    network = add_node(graph, std::move(node));
  }
  for (int64_t host = 0; host < shape.hosts; ++host) add_host(graph, shape, host, network);
  return graph;
}

}  // namespace sk::topo
