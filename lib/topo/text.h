// Topologies as text: one line per node and link, which parses back to the same graph.
//
//   topology 1
//   node 0 machine name="host0"
//   node 1 numa index=0 bytes=68719476736
//   link 0 1 contains latency_ns=50 bandwidth=100000000000
//
// Blank lines and what follows a # outside quotes count for nothing.
#ifndef SK_LIB_TOPO_TEXT_H_
#define SK_LIB_TOPO_TEXT_H_

#include <string>
#include <string_view>

#include "lib/topo/graph.h"

namespace sk::topo {

std::string dump(const Graph& graph);

// The sentence of an error starts with line and column, both counted from 1.
Result<Graph> parse(std::string_view text);

// For eyes: the tree of what holds what, with the other links below it. Runs of equal cores are
// told in one line.
std::string describe(const Graph& graph);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_TEXT_H_
