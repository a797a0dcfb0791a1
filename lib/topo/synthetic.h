// Machines that nobody has to own, from one line.
#ifndef SK_LIB_TOPO_SYNTHETIC_H_
#define SK_LIB_TOPO_SYNTHETIC_H_

#include <string_view>

#include "lib/topo/graph.h"

namespace sk::topo {

// "hosts:2 numa:2 cores:8 gpus:4 nics:2": words KEY:NUMBER in any order, each once. Numbers are per
// host but for
//   hosts    machines, joined by one network switch when there are several; 1
//   sockets  default 1
//   numa     NUMA nodes, spread evenly over the sockets; default one each
//   cores    spread over the NUMA nodes; default 1 each
//   threads  per core; 1
//   memory   GiB per NUMA node; 16
//   gpus     spread over the NUMA nodes, joined by one NVLink switch when there are several; 0
//   nics     spread over the NUMA nodes; 0, or 1 with several hosts
// An error names the column of the word.
Result<Graph> synthesize(std::string_view spec);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_SYNTHETIC_H_
