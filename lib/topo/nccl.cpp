// NCCL's topology files: `system` holds `cpu` (a NUMA node each), those hold `pci` trees, whose
// leaves hold `gpu` (with `nvlink` or `xgmi`) and `nic` (with `net`).
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "lib/topo/import.h"
#include "lib/topo/typical.h"

namespace sk::topo {
namespace {

// "00000000,00ffffff": the bits of all words.
Result<uint32_t> count_bits(const XmlElement& element, const std::string& mask) {
  uint32_t bits = 0;
  for (const char c : mask) {
    if (c == ',') continue;
    unsigned digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ptr != &c + 1) {
      return element.wrong(
          fmt::format("affinity is \"{}\": it must be hexadecimal words with "
                      "commas between",
                      mask.substr(0, 40)));
    }
    bits += uint32_t(__builtin_popcount(digit));
  }
  return bits;
}

class Importer {
 public:
  Result<Graph> run(const XmlElement& system) {
    Node machine;
    machine.kind = NodeKind::kMachine;
    machine.index = 0;
    const uint32_t root = add_node(graph_, std::move(machine));
    for (const XmlElement& child : system.children) {
      if (child.name == "cpu") SK_RETURN_IF_ERROR(add_cpu(child, root));
    }
    SK_RETURN_IF_ERROR(join_numa_nodes());
    for (const auto& [gpu, element] : gpus_) SK_RETURN_IF_ERROR(add_gpu_links(gpu, *element));
    SK_RETURN_IF_ERROR(check(graph_));
    return std::move(graph_);
  }

 private:
  Status add_cpu(const XmlElement& cpu, uint32_t machine) {
    Node node;
    node.kind = NodeKind::kNuma;
    SK_ASSIGN_OR_RETURN(const double index, cpu.leading_number("numaid", -1));
    node.index = int64_t(index);
    node.name = cpu.get("vendor").value_or("");
    SK_ASSIGN_OR_RETURN(node.threads, count_bits(cpu, cpu.get("affinity").value_or("")));
    const uint32_t id = add_node(graph_, std::move(node), machine, kMachineSocket.latency_ns,
                                 kMachineSocket.bandwidth);
    numa_nodes_.push_back(id);
    return add_children(cpu, id, {kPcieHop.latency_ns, kPcieHop.bandwidth}, "");
  }

  // `speed` is of the wire that leads to what lies in `element`.
  Status add_children(const XmlElement& element, uint32_t holder, Speed speed,
                      const std::string& address) {
    for (const XmlElement& child : element.children) {
      if (child.name == "pci") SK_RETURN_IF_ERROR(add_pci(child, holder));
      if (child.name == "gpu") SK_RETURN_IF_ERROR(add_gpu(child, holder, speed, address));
      if (child.name == "nic") SK_RETURN_IF_ERROR(add_nic(child, holder, speed, address));
    }
    return {};
  }

  Status add_pci(const XmlElement& pci, uint32_t holder) {
    SK_ASSIGN_OR_RETURN(const Speed speed, pci_speed(pci));
    const std::string address = pci.get("busid").value_or("");
    const bool branches = std::any_of(pci.children.begin(), pci.children.end(),
                                      [](const XmlElement& c) { return c.name == "pci"; });
    if (!branches && !pci.children.empty()) return add_children(pci, holder, speed, address);
    SK_ASSIGN_OR_RETURN(const uint64_t class_code, pci.integer("class", 0));
    SK_ASSIGN_OR_RETURN(const uint64_t vendor, pci.integer("vendor", 0));
    Node node;
    node.kind = branches ? NodeKind::kSwitch : pci_kind(class_code, vendor);
    node.address = address;
    const uint32_t id =
        add_node(graph_, std::move(node), holder, speed.latency_ns, speed.bandwidth);
    by_address_[address] = id;
    return add_children(pci, id, speed, address);
  }

  Result<Speed> pci_speed(const XmlElement& pci) {
    SK_ASSIGN_OR_RETURN(const double transfers, pci.leading_number("link_speed", 0));
    SK_ASSIGN_OR_RETURN(const double width, pci.leading_number("link_width", 0));
    // 8b/10b coding up to 5 GT/s, 128b/130b from 8 on.
    const double coding = transfers < 8 ? 0.8 : 128.0 / 130.0;
    const double bandwidth = transfers * 1e9 * width * coding / 8;
    if (!(bandwidth >= 1)) return kPcieHop;
    return Speed{kPcieHop.latency_ns, uint64_t(std::min(bandwidth, 1e18))};
  }

  Status add_gpu(const XmlElement& gpu, uint32_t holder, Speed speed, const std::string& address) {
    Node node;
    node.kind = NodeKind::kGpu;
    SK_ASSIGN_OR_RETURN(const double index, gpu.leading_number("dev", -1));
    node.index = int64_t(index);
    const auto gcn = gpu.get("gcn");
    node.name = gcn ? "gcn " + *gcn : "sm " + gpu.get("sm").value_or("?");
    node.address = address;
    const uint32_t id =
        add_node(graph_, std::move(node), holder, speed.latency_ns, speed.bandwidth);
    by_address_[address] = id;
    gpus_.emplace_back(id, &gpu);
    return {};
  }

  // A NIC for each port. Its link is no faster than the port: what lies behind it is not told.
  Status add_nic(const XmlElement& nic, uint32_t holder, Speed speed, const std::string& address) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      Node node;
      node.kind = NodeKind::kNic;
      SK_ASSIGN_OR_RETURN(const double index, net.leading_number("dev", -1));
      node.index = int64_t(index);
      node.name = net.get("name").value_or("");
      node.address = address;
      SK_ASSIGN_OR_RETURN(const double megabits, net.leading_number("speed", 0));
      const auto port = uint64_t(std::min(megabits, 1e12) * 125'000);
      const uint64_t bandwidth = port == 0 ? speed.bandwidth : std::min(speed.bandwidth, port);
      by_address_[address] = add_node(graph_, std::move(node), holder, speed.latency_ns, bandwidth);
    }
    return {};
  }

  Status join_numa_nodes() {
    if (numa_nodes_.size() > 256) {
      return error(SK_ERR_INVALID_ARGUMENT, "{} cpu elements: at most 256 are allowed",
                   numa_nodes_.size());
    }
    for (size_t i = 0; i < numa_nodes_.size(); ++i) {
      for (size_t j = i + 1; j < numa_nodes_.size(); ++j) {
        add_link(graph_, numa_nodes_[i], numa_nodes_[j], LinkKind::kNuma, kNumaNuma.latency_ns,
                 kNumaNuma.bandwidth);
      }
    }
    return {};
  }

  // Each GPU tells its ends, so a wire between two of them is told twice.
  Status add_gpu_links(uint32_t gpu, const XmlElement& element) {
    for (const XmlElement& wire : element.children) {
      const bool nvlink = wire.name == "nvlink";
      if (!nvlink && wire.name != "xgmi") continue;
      const std::string target = wire.get("target").value_or("");
      SK_ASSIGN_OR_RETURN(const double count, wire.leading_number("count", 1));
      SK_ASSIGN_OR_RETURN(const uint64_t class_code, wire.integer("tclass", 0));
      const auto it = by_address_.find(target);
      uint32_t other = it == by_address_.end() ? kNoNode : it->second;
      if (other == kNoNode && class_code == 0x068000) other = add_nvswitch(target);
      if (other == kNoNode) {
        return wire.wrong(
            fmt::format("the target \"{}\" is in no pci element", target.substr(0, 40)));
      }
      const LinkKind kind = nvlink ? LinkKind::kNvlink : LinkKind::kXgmi;
      const auto pair = std::make_tuple(std::min(gpu, other), std::max(gpu, other), kind);
      if (gpu == other || !joined_.insert(pair).second) continue;
      const Speed hop = nvlink ? kNvlinkHop : kXgmiHop;
      const auto wires = uint64_t(std::clamp(count, 1.0, 1000.0));
      add_link(graph_, gpu, other, kind, hop.latency_ns, hop.bandwidth * wires);
    }
    return {};
  }

  // NVSwitches are targets only: the file does not say where on the bus they are.
  uint32_t add_nvswitch(const std::string& address) {
    Node node;
    node.kind = NodeKind::kSwitch;
    node.name = "NVSwitch";
    node.address = address;
    return by_address_[address] = add_node(graph_, std::move(node));
  }

  Graph graph_;
  std::vector<uint32_t> numa_nodes_;
  std::map<std::string, uint32_t> by_address_;
  std::vector<std::pair<uint32_t, const XmlElement*>> gpus_;
  std::set<std::tuple<uint32_t, uint32_t, LinkKind>> joined_;
};

}  // namespace

NodeKind pci_kind(uint64_t class_code, uint64_t vendor) {
  constexpr uint32_t kAmd = 0x1002, kNvidia = 0x10de, kIntel = 0x8086;
  const uint64_t kind = class_code >> 8;
  const bool gpu_maker = vendor == kAmd || vendor == kNvidia || vendor == kIntel;
  // Without a vendor (files) the class must do. VGA class alone may be a server's console.
  const bool accelerator = kind == 0x0302 || kind == 0x0380 || kind == 0x1200;
  if (accelerator && (gpu_maker || vendor == 0)) return NodeKind::kGpu;
  if (kind == 0x0300 && (vendor == kAmd || vendor == kNvidia)) return NodeKind::kGpu;
  if (kind == 0x0200 || kind == 0x0207) return NodeKind::kNic;
  if (kind == 0x0604) return NodeKind::kSwitch;
  return NodeKind::kDevice;
}

Result<Graph> from_nccl(const XmlElement& system) { return Importer().run(system); }

}  // namespace sk::topo
