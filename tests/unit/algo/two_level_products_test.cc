// Products of ranks of several hosts: what crosses is counted, and memory.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "lib/algo/two_level.h"
#include "tests/unit/algo/hosts_plans.h"

namespace sk {
namespace {

using algo::Levels;
using testing::HasSubstr;
using namespace testing_support;

// Tiles of products go up as sums, and come back as they end.
TEST(TwoLevel, AProductsSumsCrossOnceForEachHost) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1}, {2, 2}, {2, 2, 2, 2}, {4, 4}, {3, 1}, {1, 3, 2}}) {
    for (const auto& [out, workers] : std::vector<std::pair<DType, uint32_t>>{
             {DType::kF32, 1}, {DType::kF32, 3}, {DType::kBF16, 1}, {DType::kBF16, 2}}) {
      const OpDesc op =
          product_op(1000, 1100, 64, out == DType::kF32 ? DType::kF32 : DType::kBF16, out);
      Target target = with_packed(hosts(sizes), op);
      target.workers = workers;
      const CrossingSum sum = crossing(op, target), plain = crossing_when_flat(op, target);
      const auto count = double(sizes.size());
      const double all = 1000.0 * 1100 * double(dtype_bytes(out));
      const double least = 2 * (count - 1) / count * all;
      std::string name;
      for (const uint32_t size : sizes) name += std::to_string(size) + " ";
      std::printf(
          "%s of %d bytes: %lu bytes over the busiest link, least %.0f, flat %lu; %lu messages, "
          "flat %lu\n",
          name.c_str(), int(dtype_bytes(out)), sum.bytes_out_max, least, plain.bytes_out_max,
          sum.messages, plain.messages);
      if (algo::choose_levels(op, target).levels == Levels::kAlongHosts) {
        const double up = 1000.0 * 1100 * sizeof(float);
        EXPECT_LE(double(sum.bytes_out_max), 1.1 * std::max(least, up + (count - 2) / count * all))
            << name;
      }
      EXPECT_LE(sum.bytes_out_max, plain.bytes_out_max) << name;
    }
  }
  const OpDesc op = product_op(1000, 1100, 64);
  EXPECT_EQ(algo::choose_levels(op, with_packed(hosts({2, 2, 2, 2}), op)).levels,
            Levels::kAlongHosts);
}

// Partial tiles have whole blocks of rows and columns, however few of them C has.
TEST(TwoLevel, AProductOfFewRowsGoesAlongHostsForWhatPartialTilesTake) {
  const OpDesc op = product_op(1, 8192, 64, DType::kBF16, DType::kBF16);
  const Target target = with_packed(hosts(std::vector<uint32_t>(8, 2)), op);
  EXPECT_EQ(algo::choose_levels(op, target).levels, Levels::kAlongHosts);
  const CrossingSum sum = crossing(op, target), plain = crossing_when_flat(op, target);
  EXPECT_LE(10 * sum.bytes_out_max, plain.bytes_out_max);
  EXPECT_LE(sum.messages, plain.messages);
}

// Two ranks may have but a few signals for what passes between them.
TEST(TwoLevel, ProductsKeepToTheSignalsThatThereAre) {
  const OpDesc op = product_op(1000, 1100, 64);
  bool flat = false, along = false;
  for (const uint32_t signals : {4u, 8u, 15u, 16u, 17u, 30u, 100u}) {
    Target target = with_packed(hosts({2, 2, 2}), op);
    target.workers = 20;
    target.edge_signals_max = signals;
    const algo::Choice choice = algo::choose_levels(op, target);
    if (choice.levels == Levels::kFlat) {
      flat = true;
      EXPECT_THAT(choice.why_flat, HasSubstr("too few signals"));
      continue;
    }
    along = true;
    for (const RankPlan& part : made(op, target).ranks) {
      for (const Signal& signal : part.signals) ASSERT_LT(signal.number, signals);
    }
  }
  EXPECT_TRUE(flat && along);
}

// A of each rank is needed by all others: once at each host.
TEST(TwoLevel, AShardOfAProductCrossesOnceToEachHost) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1}, {2, 2}, {2, 2, 2, 2}, {4, 4}, {3, 1}, {1, 3, 2}}) {
    const OpDesc op = gather_op(1000, 600, 70);
    const Target target = with_packed(hosts(sizes), op);
    const CrossingSum sum = crossing(op, target), plain = crossing_when_flat(op, target);
    const uint64_t largest = *std::ranges::max_element(sizes);
    std::string name;
    for (const uint32_t size : sizes) name += std::to_string(size) + " ";
    EXPECT_EQ(sum.bytes_out_max, largest * (sizes.size() - 1) * 1000 * 70 * sizeof(float)) << name;
    EXPECT_EQ(sum.messages, 8 * target.world_size * (sizes.size() - 1)) << name;
    std::printf("%s: %lu bytes over the busiest link, flat %lu; %lu messages, flat %lu\n",
                name.c_str(), sum.bytes_out_max, plain.bytes_out_max, sum.messages, plain.messages);
  }
}

TEST(TwoLevel, ProductsThatDoNotFitStayFlatAndSayWhy) {
  const auto choice = [](const OpDesc& op, const Target& target) {
    return algo::choose_levels(op, with_packed(target, op));
  };
  Target mixed = hosts({2, 2});
  mixed.host_of = {0, 1, 0, 1};
  EXPECT_THAT(choice(product_op(1000, 1000, 8), mixed).why_flat, HasSubstr("do not follow"));
  EXPECT_THAT(choice(product_op(32, 32, 8), hosts({2, 2, 2, 2})).why_flat, HasSubstr("costs less"));
  EXPECT_THAT(choice(product_op(1000, 1000, 8), hosts({40, 40})).why_flat,
              HasSubstr("no other form"));
  EXPECT_EQ(choice(product_op(1000, 1000, 8), hosts({1, 1, 1})).why_flat, nullptr);
  Target refused = hosts({2, 2});
  refused.one_level = true;
  EXPECT_THAT(choice(product_op(1000, 1000, 8), refused).why_flat, HasSubstr("was refused"));
  EXPECT_THAT(choice(gather_op(32, 32, 8), refused).why_flat, HasSubstr("was refused"));
  // Shards are not summed, so that no order of hosts matters.
  EXPECT_EQ(choice(gather_op(32, 32, 8), mixed).levels, Levels::kOncePerHost);
  EXPECT_EQ(choice(gather_op(32, 32, 0), mixed).levels, Levels::kFlat);
}

TEST(TwoLevel, ProductsOfLargeHostsTakeLittleMoreMemoryThanFlatPlans) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 2}, {8, 8}, {16, 16}, {4, 4, 4, 4}, {31, 1, 31}}) {
    for (const int64_t n : {256, 1024, 4096}) {
      const OpDesc op = product_op(1024, n, 8);
      Target target = with_packed(hosts(sizes), op);
      target.workers = n == 1024 ? 4 : 1;
      const Plan plan = made(op, target), plain = made(op, flat(target));
      uint64_t most = 0, most_flat = 0;
      for (uint32_t rank = 0; rank < target.world_size; ++rank) {
        most = std::max(most, workspace_bytes(plan, rank, 1));
        most_flat = std::max(most_flat, workspace_bytes(plain, rank, 1));
      }
      EXPECT_LE(most, std::max<uint64_t>(8 << 20, 3 * most_flat)) << sizes[0] << " " << n;
    }
  }
}

}  // namespace
}  // namespace sk
