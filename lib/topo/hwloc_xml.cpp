// hwloc's XML, versions 2 and 3: `object` elements within each other, then distance matrices.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "lib/topo/import.h"
#include "lib/topo/typical.h"

namespace sk::topo {
namespace {

// A device or bridge of the bus with what is behind it, before bridges without need are dropped.
struct BusNode {
  Node node;
  Speed speed = kPcieHop;            // Of the wire above it.
  std::vector<std::string> objects;  // hwloc's numbers for it: the device and its drivers'.
  std::vector<BusNode> children;
};

std::string type_of(const XmlElement& object) { return object.get("type").value_or(""); }

bool is_object(const XmlElement& element) { return element.name == "object"; }
bool is_io(const std::string& type) {
  return type == "Bridge" || type == "PCIDev" || type == "OSDev";
}
bool is_memory(const std::string& type) { return type == "NUMANode" || type == "MemCache"; }
bool is_data_cache(const std::string& type) {
  return type.size() == 7 && type[0] == 'L' && type.substr(2) == "Cache";
}

std::string info(const XmlElement& object, const std::string& name) {
  for (const XmlElement& child : object.children) {
    if (child.name == "info" && child.get("name") == name) return child.get("value").value_or("");
  }
  return "";
}

uint32_t count_threads(const XmlElement& object) {
  uint32_t count = type_of(object) == "PU" ? 1 : 0;
  for (const XmlElement& child : object.children) {
    if (is_object(child)) count += count_threads(child);
  }
  return count;
}

// "0680 [10de:1ac2] [0000:0000] a1 00": class code without the interface byte, vendor.
Result<NodeKind> pci_kind_of(const XmlElement& object) {
  const std::string text = object.get("pci_type").value_or("");
  uint32_t class_id = 0, vendor = 0;
  const bool good =
      text.size() >= 11 && text[5] == '[' &&
      std::from_chars(text.data(), text.data() + 4, class_id, 16).ptr == text.data() + 4 &&
      std::from_chars(text.data() + 6, text.data() + 10, vendor, 16).ptr == text.data() + 10;
  if (good) return pci_kind(uint64_t(class_id) << 8, vendor);
  return object.wrong(
      fmt::format("pci_type is \"{}\": it must be like \"0200 [8086:1521]\"", text.substr(0, 40)));
}

Result<Speed> pci_speed(const XmlElement& object) {
  SK_ASSIGN_OR_RETURN(const double gigabytes, object.leading_number("pci_link_speed", 0));
  const double bandwidth = std::min(gigabytes * 1e9, 1e18);
  return bandwidth >= 1 ? Speed{kPcieHop.latency_ns, uint64_t(bandwidth)} : kPcieHop;
}

class Importer {
 public:
  Result<Graph> run(const XmlElement& topology) {
    SK_RETURN_IF_ERROR(read_version(topology));
    for (const XmlElement& child : topology.children) {
      if (is_object(child)) SK_RETURN_IF_ERROR(walk(child, kNoNode, /*in_core=*/false));
    }
    for (const XmlElement& child : topology.children) {
      if (child.name == "distances2") {
        const std::string type = child.get("type").value_or("");
        const bool by_os = child.get("indexing") == "os";
        SK_RETURN_IF_ERROR(add_matrix(child, by_os ? type + " P#" : "gp "));
      } else if (child.name == "distances2hetero") {
        SK_RETURN_IF_ERROR(add_matrix(child, "gp "));
      }
    }
    if (!numa_joined_) join_numa_nodes();
    SK_RETURN_IF_ERROR(check(graph_));
    return std::move(graph_);
  }

 private:
  Status read_version(const XmlElement& topology) {
    SK_ASSIGN_OR_RETURN(const double version, topology.leading_number("version", 1));
    version_ = int(std::min(version, 1000.0));
    if (version_ == 2 || version_ == 3) return {};
    return topology.wrong(
        fmt::format("the version is {}: only 2 and 3 can be read (hwloc's lstopo "
                    "writes them)",
                    version));
  }

  Status walk(const XmlElement& object, uint32_t holder, bool in_core);
  Result<uint32_t> add_object(const XmlElement& object, uint32_t holder, bool in_core);
  Result<uint32_t> add_numa_nodes(const XmlElement& object, uint32_t holder);
  Result<uint32_t> add_numa_node(const XmlElement& object, uint32_t holder);
  Result<std::vector<BusNode>> read_bus(const XmlElement& object);
  Result<std::optional<BusNode>> read_device(const XmlElement& object);
  Status read_driver(const XmlElement& object, BusNode& device) const;
  void add_bus(const BusNode& bus, uint32_t holder);
  void remember(const XmlElement& object, uint32_t id);
  Status add_matrix(const XmlElement& matrix, const std::string& prefix);
  void join_numa_nodes();
  void join(uint32_t a, uint32_t b, LinkKind kind, double latency_ns, double bandwidth);

  Graph graph_;
  int version_ = 2;
  std::map<std::string, uint32_t> by_object_;  // "gp 45" and "NUMANode P#0" to our number.
  std::vector<uint32_t> numa_nodes_;
  std::set<std::tuple<uint32_t, uint32_t, LinkKind>> joined_;
  bool numa_joined_ = false;
};

// In hwloc a NUMA node hangs beside what it is near to; here it holds the caches and cores that are
// near to it, so that a path from a core to memory or a device leads through it.
Status Importer::walk(const XmlElement& object, uint32_t holder, bool in_core) {
  const std::string type = type_of(object);
  const bool above_numa = type == "Machine" || type == "Package";
  if (!above_numa) {
    SK_ASSIGN_OR_RETURN(holder, add_numa_nodes(object, holder));
  }
  SK_ASSIGN_OR_RETURN(holder, add_object(object, holder, in_core));
  if (above_numa) {
    SK_ASSIGN_OR_RETURN(holder, add_numa_nodes(object, holder));
  }
  for (const XmlElement& child : object.children) {
    const std::string child_type = type_of(child);
    if (!is_object(child) || is_io(child_type) || is_memory(child_type)) continue;
    SK_RETURN_IF_ERROR(walk(child, holder, in_core || type == "Core"));
  }
  SK_ASSIGN_OR_RETURN(const std::vector<BusNode> buses, read_bus(object));
  for (const BusNode& bus : buses) add_bus(bus, holder);
  return {};
}

// The node for `object`, or `holder` when there is none for its type.
Result<uint32_t> Importer::add_object(const XmlElement& object, uint32_t holder, bool in_core) {
  const std::string type = type_of(object);
  Node node;
  Speed speed = kCacheCore;
  if (type == "Machine") {
    node.kind = NodeKind::kMachine;
    node.name = info(object, "DMIProductName");
  } else if (type == "Package") {
    node.kind = NodeKind::kSocket;
    node.name = info(object, "CPUModel");
    speed = kMachineSocket;
  } else if (is_data_cache(type)) {
    node.kind = NodeKind::kCache;
    node.level = uint32_t(type[1] - '0');
    SK_ASSIGN_OR_RETURN(node.bytes, object.integer("cache_size", 0));
  } else if (type == "Core" || (type == "PU" && !in_core)) {
    node.kind = NodeKind::kCore;
    node.threads = std::max(1u, count_threads(object));
  } else {
    return holder;
  }
  SK_ASSIGN_OR_RETURN(const uint64_t index, object.integer("os_index", UINT64_MAX));
  node.index = int64_t(index);  // Without one: -1.
  const bool below_memory = holder != kNoNode && graph_.nodes[holder].kind == NodeKind::kNuma;
  if (below_memory) speed = kMemory;
  const uint32_t id = add_node(graph_, std::move(node), holder, speed.latency_ns, speed.bandwidth);
  remember(object, id);
  return id;
}

// The first one is what holds the rest; others (high-bandwidth memory beside DRAM) stand by. A
// GPU's memory that Linux shows as a NUMA node counts with the GPU, not here.
Result<uint32_t> Importer::add_numa_nodes(const XmlElement& object, uint32_t holder) {
  uint32_t first = kNoNode;
  for (const XmlElement& child : object.children) {
    if (!is_object(child) || !is_memory(type_of(child))) continue;
    if (child.get("subtype") == "GPUMemory") continue;
    uint32_t id = kNoNode;
    if (type_of(child) == "MemCache") {  // A cache before the memory: what is behind it counts.
      SK_ASSIGN_OR_RETURN(id, add_numa_nodes(child, holder));
      if (id == holder) continue;
    } else {
      SK_ASSIGN_OR_RETURN(id, add_numa_node(child, holder));
    }
    if (first == kNoNode) first = id;
  }
  return first == kNoNode ? holder : first;
}

Result<uint32_t> Importer::add_numa_node(const XmlElement& object, uint32_t holder) {
  Node node;
  node.kind = NodeKind::kNuma;
  SK_ASSIGN_OR_RETURN(const uint64_t index, object.integer("os_index", UINT64_MAX));
  node.index = int64_t(index);
  SK_ASSIGN_OR_RETURN(node.bytes, object.integer("local_memory", 0));
  node.name = object.get("subtype").value_or("");
  const uint32_t id =
      add_node(graph_, std::move(node), holder, kSocketNuma.latency_ns, kSocketNuma.bandwidth);
  remember(object, id);
  if (numa_nodes_.size() == 1024) return object.wrong("more than 1024 NUMA nodes");
  numa_nodes_.push_back(id);
  return id;
}

void Importer::remember(const XmlElement& object, uint32_t id) {
  if (const auto number = object.get("gp_index")) by_object_["gp " + *number] = id;
  if (const auto number = object.get("os_index")) {
    by_object_[type_of(object) + " P#" + *number] = id;
  }
}

// What of `object`'s devices is worth a node, through bridges that are not.
Result<std::vector<BusNode>> Importer::read_bus(const XmlElement& object) {
  std::vector<BusNode> out;
  for (const XmlElement& child : object.children) {
    const std::string type = type_of(child);
    if (!is_object(child) || !is_io(type)) continue;
    if (type != "Bridge") {
      SK_ASSIGN_OR_RETURN(std::optional<BusNode> device, read_device(child));
      if (device) out.push_back(std::move(*device));
      continue;
    }
    SK_ASSIGN_OR_RETURN(std::vector<BusNode> behind, read_bus(child));
    const bool host_bridge = child.get("bridge_type").value_or("").substr(0, 1) == "0";
    if (host_bridge) {
      std::move(behind.begin(), behind.end(), std::back_inserter(out));
      continue;
    }
    SK_ASSIGN_OR_RETURN(const Speed speed, pci_speed(child));
    if (behind.size() == 1) {
      Speed& through = behind[0].speed;
      through.latency_ns += speed.latency_ns;
      through.bandwidth = std::min(through.bandwidth, speed.bandwidth);
      out.push_back(std::move(behind[0]));
    } else if (behind.size() > 1) {
      BusNode bridge;
      bridge.node.kind = NodeKind::kSwitch;
      bridge.node.address = child.get("pci_busid").value_or("");
      bridge.speed = speed;
      bridge.children = std::move(behind);
      out.push_back(std::move(bridge));
    }
  }
  return out;
}

// nullopt: neither GPU, NIC nor switch. Drivers say best what a device is; without them its class.
Result<std::optional<BusNode>> Importer::read_device(const XmlElement& object) {
  BusNode out;
  out.node.kind = NodeKind::kDevice;
  if (const auto number = object.get("gp_index")) out.objects.push_back("gp " + *number);
  if (type_of(object) == "PCIDev") {
    SK_ASSIGN_OR_RETURN(out.speed, pci_speed(object));
    SK_ASSIGN_OR_RETURN(out.node.kind, pci_kind_of(object));
    out.node.address = object.get("pci_busid").value_or("");
    if (object.get("subtype") == "NVSwitch") {
      out.node.kind = NodeKind::kSwitch;
      out.node.name = "NVSwitch";
    }
    for (const XmlElement& child : object.children) {
      if (is_object(child) && type_of(child) == "OSDev") {
        SK_RETURN_IF_ERROR(read_driver(child, out));
      }
    }
  } else {
    SK_RETURN_IF_ERROR(read_driver(object, out));
  }
  const NodeKind kind = out.node.kind;
  const bool kept = kind == NodeKind::kGpu || kind == NodeKind::kNic || kind == NodeKind::kSwitch;
  if (!kept) return std::optional<BusNode>();
  return std::optional<BusNode>(std::move(out));
}

Status Importer::read_driver(const XmlElement& object, BusNode& device) const {
  if (const auto number = object.get("gp_index")) device.objects.push_back("gp " + *number);
  SK_ASSIGN_OR_RETURN(const uint64_t type, object.integer("osdev_type", 0));
  // A number in version 2 (1 GPU, 2 network, 3 OpenFabrics, 5 co-processor), bits in version 3.
  const bool network = version_ == 2 ? type == 2 : (type & 16) != 0;
  const bool fabric = version_ == 2 ? type == 3 : (type & 32) != 0;
  const bool compute = version_ == 2 ? type == 1 || type == 5 : (type & 12) != 0;
  if (network || fabric) {
    device.node.kind = NodeKind::kNic;
    if (device.node.name.empty() || fabric) device.node.name = object.get("name").value_or("");
  } else if (compute && device.node.kind == NodeKind::kGpu) {
    const std::string model = info(object, "GPUModel");
    if (!model.empty()) device.node.name = model;
    const std::string kibibytes = info(object, "CUDAGlobalMemorySize");
    uint64_t value = 0;
    std::from_chars(kibibytes.data(), kibibytes.data() + kibibytes.size(), value);
    if (value != 0) device.node.bytes = value << 10;
  }
  return {};
}

void Importer::add_bus(const BusNode& bus, uint32_t holder) {
  const uint32_t id = add_node(graph_, bus.node, holder, bus.speed.latency_ns, bus.speed.bandwidth);
  for (const std::string& object : bus.objects) by_object_[object] = id;
  for (const BusNode& child : bus.children) add_bus(child, id);
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// Latencies of NUMA nodes are relative to the node's own; bandwidths are in megabytes per second.
// Heterogeneous matrices put the type before the number: "PCIDev:449".
Status Importer::add_matrix(const XmlElement& matrix, const std::string& prefix) {
  std::vector<uint32_t> ids;
  std::vector<double> values;
  for (const XmlElement& child : matrix.children) {
    for (const std::string& word : words(child.text)) {
      if (child.name == "indexes") {
        const size_t colon = word.find(':');
        const auto it =
            by_object_.find(prefix + (colon == std::string::npos ? word : word.substr(colon + 1)));
        ids.push_back(it == by_object_.end() ? kNoNode : it->second);
      } else if (child.name == "u64values") {
        double value = 0;
        if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc()) {
          return child.wrong(fmt::format("\"{}\" is no number", word.substr(0, 40)));
        }
        values.push_back(value);
      }
    }
  }
  const size_t n = ids.size();
  if (n > 4096 || values.size() != n * n) {
    return matrix.wrong(
        fmt::format("{} values for {} objects: there must be one for each pair", values.size(), n));
  }
  const std::string name = matrix.get("name").value_or("");
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      if (ids[i] == kNoNode || ids[j] == kNoNode) continue;
      const double value = values[i * n + j], own = values[i * n + i];
      if (name == "NUMALatency" && own > 0) {
        join(ids[i], ids[j], LinkKind::kNuma, kMemory.latency_ns * (value / own - 1),
             double(kNumaNuma.bandwidth));
        numa_joined_ = true;
      } else if (name == "NVLinkBandwidth" && value > 0) {
        join(ids[i], ids[j], LinkKind::kNvlink, kNvlinkHop.latency_ns, value * 1e6);
      } else if (name == "XGMIBandwidth" && value > 0) {
        join(ids[i], ids[j], LinkKind::kXgmi, kXgmiHop.latency_ns, value * 1e6);
      }
    }
  }
  return {};
}

void Importer::join_numa_nodes() {
  for (size_t i = 0; i < numa_nodes_.size(); ++i) {
    for (size_t j = i + 1; j < numa_nodes_.size(); ++j) {
      join(numa_nodes_[i], numa_nodes_[j], LinkKind::kNuma, kNumaNuma.latency_ns,
           double(kNumaNuma.bandwidth));
    }
  }
}

// Two drivers of one device may each have a row.
void Importer::join(uint32_t a, uint32_t b, LinkKind kind, double latency_ns, double bandwidth) {
  const auto pair = std::make_tuple(std::min(a, b), std::max(a, b), kind);
  if (a == b || !joined_.insert(pair).second) return;
  add_link(graph_, a, b, kind, uint32_t(std::clamp(latency_ns, 1.0, 1e9)),
           uint64_t(std::clamp(bandwidth, 1.0, 1e18)));
}

}  // namespace

Result<Graph> from_hwloc(const XmlElement& topology) { return Importer().run(topology); }

}  // namespace sk::topo
