// Recorded machines that we do not own. They lie beside the repository, or where SK_MACHINES_DIR
// says; without them these tests are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/topo/import.h"
#include "lib/topo/path.h"
#include "lib/topo/text.h"

namespace sk::topo {
namespace {

namespace fs = std::filesystem;

fs::path machines() {
  const char* folder = std::getenv("SK_MACHINES_DIR");
  return folder != nullptr ? folder : SK_MACHINES_DEFAULT;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

class TopoMachines : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(machines())) {
      GTEST_SKIP() << "no recorded machines at " << machines() << " (SK_MACHINES_DIR)";
    }
  }
  static Graph load(const std::string& file) {
    auto graph = from_xml(read(machines() / file));
    EXPECT_TRUE(graph.ok()) << file << ": " << graph.status().message();
    return graph.ok() ? std::move(graph).value() : Graph{};
  }
};

TEST_F(TopoMachines, AllCanBeReadAndRoundTrip) {
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(machines())) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto graph = from_xml(read(entry.path()));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const auto again = parse(dump(graph.value()));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again.value(), graph.value());
    EXPECT_FALSE(describe(graph.value()).empty());
    ++count;
  }
  EXPECT_GT(count, 40);
}

TEST_F(TopoMachines, HaveWhatTheirMakersSay) {
  struct {
    const char* file;
    int64_t sockets, numa_nodes, cores, threads, gpus, nics;
  } const table[] = {
      {"hwloc-xml/nvidiaDGX2.xml", 2, 2, 4, 4, 16, 0},
      {"hwloc-xml/power8gpudistances.xml", 2, 2, 8, 16, 4, 0},
      {"hwloc-xml/96em64t-4n4d3ca2co-pci.xml", 16, 4, 96, 96, 1, 8},
      {"nccl-xml/aws-p4d-24xl-topo.xml", 0, 2, 0, 96, 8, 4},
      {"nccl-xml/azure-ndv4-topo.xml", 0, 4, 0, 96, 8, 8},
      {"nccl-xml/rccl-topo_8p_rome_4nics.xml", 0, 4, 0, 256, 8, 4},
      {"nccl-xml/rccl-topo_16p1h.xml", 0, 4, 0, 256, 16, 8},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(row.file);
    const Summary s = summarize(load(row.file));
    EXPECT_EQ(s.hosts, 1);
    EXPECT_EQ(s.sockets, row.sockets);
    EXPECT_EQ(s.numa_nodes, row.numa_nodes);
    EXPECT_EQ(s.cores, row.cores);
    EXPECT_EQ(s.threads, row.threads);
    EXPECT_EQ(s.gpus, row.gpus);
    EXPECT_EQ(s.nics, row.nics);
  }
}

// The file tells the links to the six switches of a GPU's board, not those between the boards.
TEST_F(TopoMachines, GpusOfADgx2MeetAtTheirBoardsNvswitches) {
  const Graph graph = load("hwloc-xml/nvidiaDGX2.xml");
  std::vector<uint32_t> gpus;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::kGpu) gpus.push_back(i);
  }
  ASSERT_EQ(gpus.size(), 16u);
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (size_t j = i + 1; j < gpus.size(); ++j) {
      const auto path = highest_bandwidth(graph, gpus[i], gpus[j]);
      ASSERT_TRUE(path.has_value());
      const bool same_board = i / 8 == j / 8;
      EXPECT_EQ(graph.nodes[path->nodes[1]].name == "NVSwitch", same_board);
      if (!same_board) continue;
      EXPECT_EQ(path->nodes.size(), 3u);
      EXPECT_EQ(path->bandwidth, 25'000'000'000u);
    }
  }
}

}  // namespace
}  // namespace sk::topo
