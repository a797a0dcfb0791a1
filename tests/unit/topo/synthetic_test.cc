#include "lib/topo/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sk::topo {
namespace {

using testing::StartsWith;

TEST(TopoSynthetic, HasWhatWasAskedFor) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto up_to = [&](int64_t most) { return int64_t(random() % uint64_t(most)) + 1; };
    const int64_t hosts = up_to(4), sockets = up_to(3), numa = sockets * up_to(3);
    const int64_t cores = numa + up_to(20), threads = up_to(2), memory = up_to(9);
    const int64_t gpus = up_to(9) - 1, nics = up_to(5) - 1;
    const std::string spec =
        fmt::format(" gpus:{} hosts:{}  sockets:{} numa:{} cores:{} threads:{} memory:{} nics:{}",
                    gpus, hosts, sockets, numa, cores, threads, memory, nics);
    const auto graph = synthesize(spec);
    ASSERT_TRUE(graph.ok()) << spec << ": " << graph.status().message();
    EXPECT_TRUE(check(graph.value()).ok()) << spec;
    const Summary s = summarize(graph.value());
    EXPECT_EQ(s.hosts, hosts) << spec;
    EXPECT_EQ(s.sockets, hosts * sockets) << spec;
    EXPECT_EQ(s.numa_nodes, hosts * numa) << spec;
    EXPECT_EQ(s.cores, hosts * cores) << spec;
    EXPECT_EQ(s.threads, hosts * cores * threads) << spec;
    EXPECT_EQ(s.gpus, hosts * gpus) << spec;
    EXPECT_EQ(s.nics, hosts * nics) << spec;
    EXPECT_EQ(s.memory_bytes, uint64_t(hosts * numa * memory) << 30) << spec;
  }
}

TEST(TopoSynthetic, NothingIsASmallMachine) {
  const auto graph = synthesize("");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(summarize(graph.value()).cores, 1);
}

TEST(TopoSynthetic, MistakesAreTold) {
  struct {
    const char* spec;
    const char* sentence;
  } const table[] = {
      {"hosts", "column 1: hosts is \"\": it must be a number from 1 to 16384, after a colon"},
      {"hosts:0", "column 1: hosts is \"0\""},
      {"cores:2 hosts:two", "column 9: hosts is \"two\""},
      {"cores:2 cores:2", "column 9: cores comes twice"},
      {"cores:2x", "column 1: cores is \"2x\""},
      {"racks:1", "column 1: \"racks\" is none of hosts,"},
      {"sockets:2 numa:3", "numa is 3: it must be a multiple of the 2 sockets"},
      {"numa:4 cores:3", "cores is 3: it must be at least numa, 4"},
      {"hosts:16384 cores:4096", "16384 hosts of this shape are more than"},
      {"hosts:99999999999999999999", "column 1: hosts is"},
  };
  for (const auto& row : table) {
    const auto graph = synthesize(row.spec);
    EXPECT_EQ(graph.status().code(), SK_ERR_INVALID_ARGUMENT) << row.spec;
    EXPECT_THAT(graph.status().message(), StartsWith(row.sentence));
  }
}

}  // namespace
}  // namespace sk::topo
