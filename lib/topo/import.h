// Topologies from outside: this machine, and the files of hwloc (lstopo) and NCCL.
#ifndef SK_LIB_TOPO_IMPORT_H_
#define SK_LIB_TOPO_IMPORT_H_

#include <string_view>

#include "lib/topo/graph.h"
#include "lib/topo/xml.h"

namespace sk::topo {

// This machine, as hwloc sees it. HWLOC_FSROOT in the environment puts a recorded tree of /sys and
// /proc in its place. Bus bridges with one device behind them are not nodes; PCI devices that are
// neither GPU, NIC nor NVSwitch are left out. One call at a time in a process.
Result<Graph> discover();

// hwloc's XML (root element `topology`, versions 2 and 3) or NCCL's (`system`). An error tells line
// and column where the text is no XML or not such a file.
Result<Graph> from_xml(std::string_view text);

// Any text that a topology can be read from: XML when its first character is a <, else text.h's.
Result<Graph> from_any(std::string_view text);

// What from_xml() calls. NCCL knows NUMA nodes, no cores and no sockets.
Result<Graph> from_hwloc(const XmlElement& topology);
Result<Graph> from_nccl(const XmlElement& system);

// What a PCI device of this class code (0x030200) and vendor is, as far as the two tell.
NodeKind pci_kind(uint64_t class_code, uint64_t vendor);

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_IMPORT_H_
