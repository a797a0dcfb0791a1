// Ways through a topology.
#ifndef SK_LIB_TOPO_PATH_H_
#define SK_LIB_TOPO_PATH_H_

#include <optional>
#include <vector>

#include "lib/topo/graph.h"

namespace sk::topo {

struct Path {
  std::vector<uint32_t> nodes;      // Both ends included.
  uint64_t latency_ns = 0;          // Sum over the links.
  uint64_t bandwidth = UINT64_MAX;  // The least of the links; without limit for a path of one node.

  bool operator==(const Path&) const = default;
};

// Paths do not lead through cores or GPUs, which would have to forward the bytes themselves.
// nullopt: there is none, or a node does not exist.

// The least latency; among equals the highest bandwidth.
std::optional<Path> lowest_latency(const Graph& graph, uint32_t from, uint32_t to);

// The highest bandwidth; among equals the least latency.
std::optional<Path> highest_bandwidth(const Graph& graph, uint32_t from, uint32_t to);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_PATH_H_
