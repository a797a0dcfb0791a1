// What the machines look like: nodes and links, plain data without a way to talk to hardware.
//
// The tree of what lies in what is part of the links (kind kContains, `a` holds `b`), so a path may
// climb it like any other wire. Nodes are numbered in an order in which the holder comes first.
#ifndef SK_LIB_TOPO_GRAPH_H_
#define SK_LIB_TOPO_GRAPH_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lib/base/status.h"

namespace sk::topo {

enum class NodeKind : uint8_t {
  kMachine,
  kSocket,
  kNuma,
  kCache,
  kCore,
  kGpu,
  kNic,
  kSwitch,  // Of PCIe, NVLink or a network.
  kDevice,  // On the PCI bus, of a function that the source does not tell.
};
inline constexpr int kNodeKindCount = 9;

enum class LinkKind : uint8_t {
  kContains,
  kPcie,
  kNuma,  // Between NUMA nodes of one machine.
  kNvlink,
  kXgmi,
  kNetwork,
};
inline constexpr int kLinkKindCount = 6;

struct Node {
  NodeKind kind = NodeKind::kMachine;
  int64_t index = -1;    // The operating system's number; -1: it has none.
  uint32_t level = 0;    // Caches: 1 to 5.
  uint32_t threads = 0;  // Hardware threads, of a core or of a NUMA node whose cores are not known.
  uint64_t bytes = 0;    // Memory of a NUMA node or GPU, size of a cache; 0: not known.
  std::string name;      // A model or a device name; may be empty.
  std::string address;   // On the PCI bus, "0000:46:00.0"; else empty.

  bool operator==(const Node&) const = default;
};

// Works in both directions. Where the source has no figures they are typical ones (typical.h).
struct Link {
  uint32_t a = 0;  // Less than `b`.
  uint32_t b = 0;
  LinkKind kind = LinkKind::kContains;
  uint32_t latency_ns = 0;
  uint64_t bandwidth = 0;  // Bytes per second in each direction, more than 0.

  bool operator==(const Link&) const = default;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Link> links;

  bool operator==(const Graph&) const = default;
};

inline constexpr uint32_t kNoNode = UINT32_MAX;
inline constexpr size_t kNodeCountMax = 1u << 20;
inline constexpr size_t kLinkCountMax = 1u << 22;

// "gpu" and back; the words of the text form.
const char* kind_name(NodeKind kind);
const char* kind_name(LinkKind kind);
bool kind_from_name(std::string_view name, NodeKind* out);
bool kind_from_name(std::string_view name, LinkKind* out);

// One rule for whoever makes a graph: every link joins two nodes that exist, the lesser number
// first; a node is held by one other at most; no two links of one kind join the same two nodes.
Status check(const Graph& graph);

// The same, link by link; sentences go on after "the link".
class LinkChecker {
 public:
  explicit LinkChecker(size_t node_count) : held_(node_count) {}
  Status accept(const Link& link);

 private:
  std::vector<bool> held_;
  std::set<std::tuple<uint32_t, uint32_t, LinkKind>> seen_;
};

// parents[i] is the node that holds node i, or kNoNode.
std::vector<uint32_t> parents(const Graph& graph);

struct Summary {
  int64_t hosts = 0;
  int64_t sockets = 0;
  int64_t numa_nodes = 0;
  int64_t cores = 0;
  int64_t threads = 0;
  int64_t gpus = 0;
  int64_t nics = 0;
  uint64_t memory_bytes = 0;  // Of the NUMA nodes.
};
Summary summarize(const Graph& graph);

// Builds graphs by hand: adds a node and the link to what holds it, if anything does.
uint32_t add_node(Graph& graph, Node node, uint32_t parent = kNoNode, uint32_t latency_ns = 0,
                  uint64_t bandwidth = 0, LinkKind kind = LinkKind::kContains);
void add_link(Graph& graph, uint32_t a, uint32_t b, LinkKind kind, uint32_t latency_ns,
              uint64_t bandwidth);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_GRAPH_H_
