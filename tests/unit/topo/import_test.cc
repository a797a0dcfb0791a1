// hwloc's and NCCL's files, written here small.
#include "lib/topo/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/topo/path.h"
#include "lib/topo/text.h"

namespace sk::topo {
namespace {

using testing::HasSubstr;

const char kNccl[] = R"(<system version="1">
  <cpu numaid="0" affinity="0000000f,ffffffff" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:f0:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="100000" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0,00000000">
    <pci busid="0000:03:00.0" class="0x030200" link_speed="" link_width="16">
      <gpu dev="1" sm="80" rank="1"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>)";

const char kHwloc[] = R"(<?xml version="1.0"?>
<topology version="2.0">
  <object type="Machine" os_index="0" gp_index="1">
    <info name="DMIProductName" value="Box"/>
    <object type="Package" os_index="0" gp_index="2">
      <info name="CPUModel" value="Model &amp; Co"/>
      <object type="NUMANode" os_index="0" gp_index="3" local_memory="1024"/>
      <object type="L3Cache" gp_index="4" cache_size="4096" depth="3" cache_type="0">
        <object type="Core" os_index="0" gp_index="5">
          <object type="PU" os_index="0" gp_index="6"/>
          <object type="PU" os_index="2" gp_index="7"/>
        </object>
        <object type="Core" os_index="1" gp_index="8">
          <object type="PU" os_index="1" gp_index="9"/>
        </object>
      </object>
      <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0">
        <object type="Bridge" gp_index="21" bridge_type="1-1" pci_busid="0000:00:01.0"
                pci_type="0604 [8086:3c03] [0000:0000] 07 00" pci_link_speed="8.0">
          <object type="PCIDev" gp_index="22" pci_busid="0000:02:00.0"
                  pci_type="0200 [8086:1521] [0000:0000] 01 00" pci_link_speed="4.0">
            <object type="OSDev" gp_index="23" name="eth0" osdev_type="2"/>
          </object>
        </object>
        <object type="PCIDev" gp_index="24" pci_busid="0000:03:00.0"
                pci_type="0106 [8086:1521] [0000:0000] 01 00" pci_link_speed="4.0"/>
        <object type="PCIDev" gp_index="25" pci_busid="0000:04:00.0"
                pci_type="0300 [1a03:2000] [0000:0000] 01 00" pci_link_speed="0.0"/>
        <object type="PCIDev" gp_index="26" pci_busid="0000:05:00.0"
                pci_type="0302 [10de:20b0] [0000:0000] 01 00" pci_link_speed="31.5"/>
      </object>
    </object>
    <object type="Package" os_index="1" gp_index="10">
      <object type="NUMANode" os_index="1" gp_index="11" local_memory="2048"/>
      <object type="Core" os_index="2" gp_index="12"><object type="PU" os_index="3"/></object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 1 </indexes>
    <u64values length="12">10 20 20 10 </u64values>
  </distances2>
</topology>)";

uint32_t find_node(const Graph& graph, NodeKind kind, int64_t index) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == kind && graph.nodes[i].index == index) return i;
  }
  return kNoNode;
}

const Link* find_link(const Graph& graph, LinkKind kind) {
  const auto it = std::find_if(graph.links.begin(), graph.links.end(),
                               [&](const Link& link) { return link.kind == kind; });
  return it == graph.links.end() ? nullptr : &*it;
}

TEST(TopoImport, ReadsNcclFiles) {
  const auto made = from_xml(kNccl);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Graph& graph = made.value();
  const Summary s = summarize(graph);
  EXPECT_EQ(s.hosts, 1);
  EXPECT_EQ(s.numa_nodes, 2);
  EXPECT_EQ(s.threads, 40);
  EXPECT_EQ(s.gpus, 2);
  EXPECT_EQ(s.nics, 1);
  const uint32_t gpu0 = find_node(graph, NodeKind::kGpu, 0);
  const uint32_t gpu1 = find_node(graph, NodeKind::kGpu, 1);
  ASSERT_NE(gpu0, kNoNode);
  EXPECT_EQ(graph.nodes[gpu0].address, "0000:02:00.0");
  const auto path = highest_bandwidth(graph, gpu0, gpu1);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->nodes, (std::vector<uint32_t>{gpu0, gpu1}));
  EXPECT_EQ(path->bandwidth, 80'000'000'000u);  // Four NVLinks.
  const uint32_t nic = find_node(graph, NodeKind::kNic, 0);
  const auto to_nic = lowest_latency(graph, gpu0, nic);
  ASSERT_TRUE(to_nic.has_value());
  EXPECT_EQ(to_nic->nodes.size(), 3u);            // Over their PCIe switch.
  EXPECT_EQ(to_nic->bandwidth, 12'500'000'000u);  // The port's 100 Gbit/s, less than PCIe's.
}

TEST(TopoImport, ReadsHwlocFiles) {
  const auto made = from_xml(kHwloc);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(describe(made.value()),
            "machine 0 \"Box\"\n"
            "  socket 0 \"Model & Co\"\n"
            "    numa 0, 1 KiB\n"
            "      L3, 4 KiB\n"
            "        core 0, 2 threads\n"
            "        core 1, 1 thread\n"
            "      nic \"eth0\" 0000:02:00.0\n"
            "      gpu 0000:05:00.0\n"
            "  socket 1\n"
            "    numa 1, 2 KiB\n"
            "      core 2, 1 thread\n"
            "links\n"
            "  numa 0 - numa 1: numa, 40 GB/s, 80 ns\n");
  const Graph& graph = made.value();
  const auto path = lowest_latency(graph, find_node(graph, NodeKind::kCore, 2),
                                   find_node(graph, NodeKind::kNic, -1));
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->bandwidth, 4'000'000'000u);
  EXPECT_NE(find_link(graph, LinkKind::kNuma), nullptr);
}

TEST(TopoImport, VersionThreeTellsDriversByBits) {
  std::string text = kHwloc;
  text.replace(text.find("version=\"2.0\""), 13, "version=\"3.0\"");
  text.replace(text.find("pci_type=\"0200"), 14, "pci_type=\"0280");  // Its class tells nothing.
  EXPECT_EQ(summarize(from_xml(text).value()).nics, 0);
  text.replace(text.find("osdev_type=\"2\""), 14, "osdev_type=\"16\"");
  EXPECT_EQ(summarize(from_xml(text).value()).nics, 1);
}

TEST(TopoImport, ThisMachineHasACore) {
  const auto made = discover();
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(check(made.value()).ok());
  const Summary s = summarize(made.value());
  EXPECT_EQ(s.hosts, 1);
  EXPECT_GE(s.cores, 1);
  EXPECT_GE(s.threads, s.cores);
  EXPECT_GE(s.numa_nodes, 1);
  EXPECT_GT(s.memory_bytes, 1u << 20);
  EXPECT_EQ(parse(dump(made.value())).value(), made.value());
}

TEST(TopoImport, TheFormIsToldFromTheText) {
  EXPECT_EQ(summarize(from_any(std::string("\n ") + kNccl).value()).gpus, 2);
  EXPECT_EQ(summarize(from_any("topology 1\nnode 0 gpu\n").value()).gpus, 1);
  EXPECT_THAT(from_any("").status().message(), HasSubstr("the text is empty"));
}

TEST(TopoImport, MistakesAreToldWithTheirPlace) {
  struct {
    const char* text;
    const char* sentence;
  } const table[] = {
      {"<html/>", "line 1, column 1: the root element is \"html\""},
      {"<topology/>", "line 1, column 1: the version is 1: only 2 and 3"},
      {"<topology version='4.0'/>", "the version is 4"},
      {"<topology version='2.0'><object type='Machine'>\n<object type='PCIDev' pci_type='x'/>"
       "</object></topology>",
       "line 2, column 1: pci_type is \"x\""},
      {"<topology version='2.0'><object type='Core' os_index='x'/></topology>",
       "os_index is \"x\": it must be a whole number"},
      {"<topology version='2.0'><distances2 name='NUMALatency'><indexes>0 1</indexes>"
       "<u64values>1 2 3</u64values></distances2></topology>",
       "3 values for 2 objects"},
      {"<system><cpu affinity='xyz'/></system>", "affinity is \"xyz\""},
      {"<system><cpu><pci class='zz'/></cpu></system>", "class is \"zz\""},
      {"<system><cpu>\n<pci busid='a'><gpu><xgmi target='b'/></gpu></pci></cpu></system>",
       "line 2, column 21: the target \"b\" is in no pci element"},
  };
  for (const auto& row : table) {
    const auto graph = from_xml(row.text);
    EXPECT_EQ(graph.status().code(), SK_ERR_INVALID_ARGUMENT) << row.text;
    EXPECT_THAT(graph.status().message(), HasSubstr(row.sentence)) << row.text;
  }
}

TEST(TopoImport, MutatedFilesAreRefusedOrHarmless) {
  for (const std::string sample : {kNccl, kHwloc}) {
    for (uint64_t seed = 0; seed < 1500; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      std::mt19937_64 random(seed);
      std::string text = sample;
      const size_t at = random() % text.size();
      const size_t from = random() % text.size();
      text.replace(at, random() % 6, text.substr(from, random() % 6));
      const auto graph = from_xml(text);
      if (!graph.ok()) {
        EXPECT_NE(graph.status().message(), "");
        continue;
      }
      EXPECT_TRUE(check(graph.value()).ok());
      EXPECT_EQ(parse(dump(graph.value())).value(), graph.value());
    }
  }
}

}  // namespace
}  // namespace sk::topo
