#include "tests/unit/topo/random_graph.h"

namespace sk::topo::testing_support {
namespace {

std::string random_text(std::mt19937_64& random) {
  std::string out(random() % 12, '\0');
  for (char& c : out) c = char(random());  // Quotes, newlines, zeros and all.
  return out;
}

}  // namespace

Graph random_graph(std::mt19937_64& random, size_t node_count_max) {
  Graph graph;
  const size_t node_count = random() % (node_count_max + 1);
  for (size_t i = 0; i < node_count; ++i) {
    Node node;
    node.kind = NodeKind(random() % kNodeKindCount);
    if (random() % 2) node.index = int64_t(random());
    if (random() % 2) node.level = uint32_t(random() % 6);
    if (random() % 2) node.threads = uint32_t(random());
    if (random() % 2) node.bytes = random();
    if (random() % 2) node.name = random_text(random);
    if (random() % 2) node.address = random_text(random);
    graph.nodes.push_back(std::move(node));
  }
  if (node_count < 2) return graph;
  LinkChecker checker(node_count);
  for (size_t i = random() % (3 * node_count); i > 0; --i) {
    Link link;
    link.a = uint32_t(random() % node_count);
    link.b = uint32_t(random() % node_count);
    link.kind = LinkKind(random() % kLinkKindCount);
    link.latency_ns = uint32_t(random() % 4 == 0 ? random() : random() % 8);
    link.bandwidth = random() % 4 == 0 ? random() : random() % 8;
    if (checker.accept(link).ok()) graph.links.push_back(link);
  }
  return graph;
}

}  // namespace sk::topo::testing_support
