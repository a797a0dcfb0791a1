#include <algorithm>
#include <map>

#include "lib/topo/text.h"

namespace sk::topo {
namespace {

std::string in_units(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return value == double(uint64_t(value)) ? fmt::format("{} {}", uint64_t(value), units[unit])
                                          : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string in_gigabytes(uint64_t bandwidth) {
  return fmt::format("{:.3g} GB/s", double(bandwidth) / 1e9);
}

std::string label(const Node& node) {
  std::string out = kind_name(node.kind);
  if (node.kind == NodeKind::kCache) out = fmt::format("L{}", node.level);
  if (node.index >= 0) out += fmt::format(" {}", node.index);
  if (!node.name.empty()) out += fmt::format(" \"{}\"", node.name);
  if (!node.address.empty()) out += " " + node.address;
  if (node.bytes > 0) out += ", " + in_units(node.bytes);
  if (node.threads > 0)
    out += fmt::format(", {} thread{}", node.threads, node.threads > 1 ? "s" : "");
  return out;
}

class Printer {
 public:
  explicit Printer(const Graph& graph)
      : graph_(graph), parents_(parents(graph)), children_(graph.nodes.size()) {
    for (uint32_t i = 0; i < parents_.size(); ++i) {
      if (graph.nodes[i].kind == NodeKind::kMachine) ++machines_;
      if (parents_[i] == kNoNode) {
        roots_.push_back(i);
      } else {
        children_[parents_[i]].push_back(i);
      }
    }
    // Holders come first, so a node's shape is known before that of what holds it.
    shapes_.resize(graph.nodes.size());
    for (uint32_t i = uint32_t(parents_.size()); i-- > 0;) shapes_[i] = shape(i);
  }

  std::string run() {
    for (const uint32_t root : roots_) print(root, 0);
    print_wires();
    return std::move(out_);
  }

 private:
  // Equal for nodes that differ in nothing but their numbers.
  size_t shape(uint32_t id) {
    Node node = graph_.nodes[id];
    node.index = -1;
    std::string key = label(node);
    for (const uint32_t child : children_[id]) key += fmt::format(" {}", shapes_[child]);
    return shape_numbers_.emplace(std::move(key), shape_numbers_.size()).first->second;
  }
  bool is_core_like(uint32_t id) const {
    const NodeKind kind = graph_.nodes[id].kind;
    if (kind != NodeKind::kCore && kind != NodeKind::kCache) return false;
    return std::all_of(children_[id].begin(), children_[id].end(),
                       [this](uint32_t child) { return is_core_like(child); });
  }

  // A run of equal caches and cores is one line: the first, and how many there are.
  void print(uint32_t id, int depth, size_t run = 1) {
    out_.append(size_t(depth) * 2, ' ');
    if (run > 1) out_ += fmt::format("{} x ", run);
    Node node = graph_.nodes[id];
    if (run > 1) node.index = -1;
    out_ += label(node) + '\n';
    const std::vector<uint32_t>& children = children_[id];
    for (size_t i = 0; i < children.size();) {
      size_t end = i + 1;
      while (is_core_like(children[i]) && end < children.size() &&
             shapes_[children[end]] == shapes_[children[i]]) {
        ++end;
      }
      print(children[i], depth + 1, end - i);
      i = end;
    }
  }

  // With the machine before it where there are several.
  std::string short_name(uint32_t id) const {
    uint32_t top = id;
    while (parents_[top] != kNoNode) top = parents_[top];
    const std::string own = name_in_machine(id);
    return machines_ < 2 || top == id ? own : fmt::format("{}/{}", name_in_machine(top), own);
  }
  std::string name_in_machine(uint32_t id) const {
    const Node& node = graph_.nodes[id];
    if (!node.address.empty()) return fmt::format("{} {}", kind_name(node.kind), node.address);
    if (node.index >= 0) return fmt::format("{} {}", kind_name(node.kind), node.index);
    return fmt::format("{} #{}", kind_name(node.kind), id);
  }

  void print_wires() {
    bool first = true;
    for (const Link& link : graph_.links) {
      if (link.kind == LinkKind::kContains) continue;
      if (first) out_ += "links\n";
      first = false;
      out_ += fmt::format("  {} - {}: {}, {}, {} ns\n", short_name(link.a), short_name(link.b),
                          kind_name(link.kind), in_gigabytes(link.bandwidth), link.latency_ns);
    }
  }

  const Graph& graph_;
  std::vector<uint32_t> parents_;
  int machines_ = 0;
  std::vector<std::vector<uint32_t>> children_;
  std::vector<uint32_t> roots_;
  std::vector<size_t> shapes_;
  std::map<std::string, size_t> shape_numbers_;
  std::string out_;
};

}  // namespace

std::string describe(const Graph& graph) { return Printer(graph).run(); }

}  // namespace sk::topo
