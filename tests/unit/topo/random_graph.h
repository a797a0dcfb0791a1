// Graphs that no machine would have, from a seed.
#ifndef SK_TESTS_UNIT_TOPO_RANDOM_GRAPH_H_
#define SK_TESTS_UNIT_TOPO_RANDOM_GRAPH_H_

#include <random>

#include "lib/topo/graph.h"

namespace sk::topo::testing_support {

// At most `node_count_max` nodes, every kind of node and link, names of any bytes. Valid.
Graph random_graph(std::mt19937_64& random, size_t node_count_max);

}  // namespace sk::topo::testing_support

#endif  // SK_TESTS_UNIT_TOPO_RANDOM_GRAPH_H_
