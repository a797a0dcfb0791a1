// The text form: what is written reads back the same, and what is wrong is told with its place.
#include "lib/topo/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/topo/synthetic.h"
#include "tests/unit/topo/random_graph.h"

namespace sk::topo {
namespace {

using testing::StartsWith;
using testing_support::random_graph;

TEST(TopoText, RoundTripsExactly) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random, 40);
    ASSERT_TRUE(check(graph).ok());
    const std::string text = dump(graph);
    const auto again = parse(text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    EXPECT_EQ(again.value(), graph);
    EXPECT_EQ(dump(again.value()), text);
  }
}

// Method: one byte is changed, removed, doubled or two lines swap; the parser must refuse, or give
// a graph that is valid and stable.
TEST(TopoText, MutatedTextsAreRefusedOrHarmless) {
  int refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::string text = dump(random_graph(random, 12));
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = char(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 5);
        break;
      case 2:
        text.insert(at, 1, text[random() % text.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 30));
        break;
    }
    const auto graph = parse(text);
    if (!graph.ok()) {
      EXPECT_EQ(graph.status().code(), SK_ERR_INVALID_ARGUMENT);
      EXPECT_THAT(graph.status().message(),
                  testing::ContainsRegex("^line [0-9]+, column [0-9]+: "));
      ++refused;
      continue;
    }
    ++accepted;
    EXPECT_TRUE(check(graph.value()).ok());
    const auto again = parse(dump(graph.value()));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again.value(), graph.value());
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(accepted, 30);
}

TEST(TopoText, CommentsAndBlanksCountForNothing) {
  const auto graph = parse(
      "  # a machine\n\ntopology 1  # version\n\tnode 0 machine name=\"a # b\"\n"
      "node 1   numa   index=0 # near\n\nlink 0 1 contains latency_ns=1 bandwidth=2");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph.value().nodes.at(0).name, "a # b");
  EXPECT_EQ(graph.value().links.size(), 1u);
}

TEST(TopoText, MistakesAreToldWithTheirPlace) {
  struct {
    const char* text;
    const char* sentence;
  } const table[] = {
      {"", "line 1, column 1: a topology starts with \"topology 1\""},
      {"topology 2\n", "line 1, column 1: a topology starts with"},
      {"topology 1 x\n", "line 1, column 1: a topology starts with"},
      {"topology 1\nnod 0 gpu\n", "line 2, column 1: a line starts with"},
      {"topology 1\nnode 1 gpu\n", "line 2, column 6: the node's number is 1"},
      {"topology 1\nnode x gpu\n", "line 2, column 6: the node's number is \"x\""},
      {"topology 1\nnode 0 tpu\n", "line 2, column 8: \"tpu\" is no kind of node"},
      {"topology 1\nnode 0 gpu size=1\n", "line 2, column 12: a node has no \"size\""},
      {"topology 1\nnode 0 gpu bytes=1 bytes=1\n", "line 2, column 20: bytes comes twice"},
      {"topology 1\nnode 0 gpu bytes=-1\n", "line 2, column 18: bytes is \"-1\""},
      {"topology 1\nnode 0 gpu bytes\n", "line 2, column 17: = must follow bytes"},
      {"topology 1\nnode 0 gpu name=x\n", "line 2, column 17: name must be in double quotes"},
      {"topology 1\nnode 0 gpu name=\"x\n", "line 2, column 17: the quotes of name do not end"},
      {"topology 1\nnode 0 gpu name=\"\\q\"\n", "line 2, column 19: after \\"},
      {"topology 1\nnode 0 gpu\nlink 0 0 pcie latency_ns=1 bandwidth=1\n",
       "line 3, column 1: the link joins 0 and 0"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 2 pcie latency_ns=1 bandwidth=1\n",
       "line 4, column 1: the link joins 0 and 2"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 wifi latency_ns=1 bandwidth=1\n",
       "line 4, column 10: \"wifi\" is no kind of link"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 pcie bandwidth=1\n",
       "line 4, column 15: latency_ns= must stand here"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 pcie latency_ns=1 bandwidth=0\n",
       "line 4, column 1: the link has no bandwidth"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 pcie latency_ns=1 bandwidth=1 x\n",
       "line 4, column 40: nothing may follow"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 pcie latency_ns=1 bandwidth=1\nnode 2 gpu\n",
       "line 5, column 1: nodes come before links"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nnode 2 gpu\n"
       "link 0 2 contains latency_ns=1 bandwidth=1\nlink 1 2 contains latency_ns=1 bandwidth=1\n",
       "line 6, column 1: the link puts node 2 into a second one"},
      {"topology 1\nnode 0 gpu\nnode 1 gpu\nlink 0 1 pcie latency_ns=1 bandwidth=1\n"
       "link 0 1 pcie latency_ns=2 bandwidth=2\n",
       "line 5, column 1: the link joins 0 and 1 as another of its kind does"},
  };
  for (const auto& row : table) {
    const auto graph = parse(row.text);
    EXPECT_EQ(graph.status().code(), SK_ERR_INVALID_ARGUMENT) << row.text;
    EXPECT_THAT(graph.status().message(), StartsWith(row.sentence)) << row.text;
  }
}

TEST(TopoText, TheTreeTellsEqualCoresInOneLine) {
  const auto graph = synthesize("numa:2 cores:8 threads:2 gpus:1 memory:3");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(describe(graph.value()),
            "machine 0 \"host0\"\n"
            "  socket 0\n"
            "    numa 0, 3 GiB\n"
            "      4 x core, 2 threads\n"
            "      gpu 0\n"
            "    numa 1, 3 GiB\n"
            "      4 x core, 2 threads\n"
            "links\n"
            "  numa 0 - numa 1: numa, 40 GB/s, 60 ns\n");
}

TEST(TopoText, AnyGraphCanBeDescribed) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random, 30);
    EXPECT_EQ(describe(graph).empty(), graph.nodes.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sk::topo
