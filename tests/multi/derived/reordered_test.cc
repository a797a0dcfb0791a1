// Every operation that ranks share, while what they send each other is held back, cut into pieces
// and delivered in random order.
#include <gtest/gtest.h>

#include "tests/multi/derived/cover.h"
#include "tests/multi/derived/run_cases.h"
#include "tests/multi/fault_backend.h"

namespace sk::derived {
namespace {

class DerivedReordered : public testing::TestWithParam<const Schema*> {};

TEST_P(DerivedReordered, CallsMakeWhatTheSchemaSays) {
  const uint64_t first = seed();
  Random random(first);
  const Cover cover = covering_pairs(*GetParam(), random, {}, {"reordered"});
  std::printf("%zu calls have %zu pairs: %s\n", cover.shapes.size(), cover.coverage.pairs(),
              cover.coverage.text().c_str());
  std::shared_ptr<FaultNetwork> network;
  uint64_t overtaken = 0;
  run_shapes(cover.shapes, random, first, [&](const Setting* setting) {
    if (setting == nullptr) overtaken += network->overtaken();
    network = setting == nullptr ? nullptr : make_fault_network({.seed = random()});
    testing_ops::use_backend(network);
  });
  // Else the network was kind, and nothing is shown.
  EXPECT_GT(overtaken, cover.shapes.size() / 4);
  RecordProperty("overtaken", std::to_string(overtaken));
}

INSTANTIATE_TEST_SUITE_P(All, DerivedReordered, testing::ValuesIn(schemas_between_ranks()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
