// hwloc looks at the machine and writes its XML; hwloc_xml.cpp reads that as it does any other, so
// there is one way from hwloc to our graph, and recorded machines test it.
#include <hwloc.h>

#include <memory>

#include "lib/topo/import.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace sk::topo {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

#if defined(__SANITIZE_ADDRESS__)
// hwloc unloads its plugins, and with them the libraries that only they use: nothing points any
// more to what those keep for their next use, and nothing is left that would free it.
using NotOurs = __lsan::ScopedDisabler;
#else
struct NotOurs {
  NotOurs() {}
};
#endif

int load(hwloc_topology* topology) {
  const NotOurs vendor_names;  // Of libpciaccess (common_device_name.c), by the pci plugin.
  return hwloc_topology_load(topology);
}

int write_xml(hwloc_topology* topology, char** text, int* bytes) {
  const NotOurs globals_of_threads;  // Of libxml2 (globals.c), by the plugin xml_libxml.
  return hwloc_topology_export_xmlbuffer(topology, text, bytes, 0);
}

}  // namespace

Result<Graph> discover() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return error(SK_ERR_NO_MEMORY, "hwloc could not start");
  const std::unique_ptr<hwloc_topology, DestroyTopology> topology(raw);
  const bool ready =
      hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
      hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
      hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE) == 0;
  if (!ready) return error(SK_ERR_SYSTEM, "hwloc refused its settings");
  // These would start a GPU's runtime in this process, which must be left to who computes with it.
  // A refusal says that this hwloc was built without the component: then there is nothing to bar.
  for (const char* component : {"cuda", "opencl", "rsmi", "levelzero", "gl"}) {
    (void)hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (load(raw) != 0) {
    return system_error("hwloc cannot load this machine's topology");
  }
  char* text = nullptr;
  int bytes = 0;
  if (write_xml(raw, &text, &bytes) != 0) {
    return system_error("hwloc cannot write this machine's topology");
  }
  Result<Graph> graph = from_xml(std::string_view(text));
  hwloc_free_xmlbuffer(raw, text);
  return graph;
}

}  // namespace sk::topo
