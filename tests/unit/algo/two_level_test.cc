// Plans of ranks of several hosts: what crosses is counted.
#include "lib/algo/two_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "lib/algo/large_worlds.h"
#include "tests/unit/algo/hosts_plans.h"

namespace sk {
namespace {

using algo::Levels;
using testing::HasSubstr;
using namespace testing_support;

TEST(Hosts, AreNumberedByTheirLeastRanks) {
  Target target{.world_size = 6, .mapped = false, .host_of = {0, 1, 0, 3, 1, 1}};
  const algo::Hosts some(target);
  EXPECT_EQ(some.count(), 3u);
  EXPECT_EQ(some.on(1), (std::vector<uint32_t>{1, 4, 5}));
  EXPECT_EQ(some.place(4), 1u);
  EXPECT_EQ(some.smallest(), 1u);
  EXPECT_EQ(some.largest(), 3u);
  EXPECT_FALSE(some.in_order());
  EXPECT_TRUE(algo::Hosts(hosts({3, 1, 2})).in_order());
  EXPECT_FALSE(algo::Hosts(hosts({1, 1, 1})).shared());
  EXPECT_EQ(algo::Hosts(Target{.world_size = 4}).count(), 1u);
}

TEST(HostTrees, TogetherLetAllHostsSendAlike) {
  for (uint32_t count = 2; count < 20; ++count) {
    std::vector<uint32_t> sends(count, count);  // Each strand on the way up,
    sends[count - 1] = 0;                       // from all but the last.
    for (uint32_t strand = 0; strand < count; ++strand) {
      const algo::HostTree tree = algo::tree_of(count, strand);
      for (uint32_t host = 0; host + 1 < count; ++host) {
        ++sends[tree.parent[host]];
        EXPECT_EQ(tree.depth[host], tree.depth[tree.parent[host]] + 1);
        uint32_t at = host;
        for (uint32_t hops = 0; at + 1 < count && hops < count; ++hops) at = tree.parent[at];
        EXPECT_EQ(at, count - 1) << "host " << host << " of strand " << strand;
      }
    }
    EXPECT_EQ(sends, std::vector<uint32_t>(count, 2 * (count - 1)));
  }
}

// What is promised of large messages: no host sends a tenth more than it must.
TEST(TwoLevel, ALargeAllreduceCrossesOnceForEachHost) {
  constexpr int64_t kCount = 1 << 20;
  const uint64_t bytes = kCount * sizeof(float);
  const OpDesc op = vector_op(OpKind::kAllreduce, kCount);
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1}, {2, 2}, {2, 2, 2, 2}, {3, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {4, 4, 4}, {1, 3, 2}}) {
    const Target target = hosts(sizes);
    const CrossingSum sum = crossing(op, target), plain = crossing_when_flat(op, target);
    const double least = 2.0 * double(sizes.size() - 1) / double(sizes.size()) * double(bytes);
    std::string name;
    for (const uint32_t size : sizes) name += std::to_string(size) + " ";
    EXPECT_LE(double(sum.bytes_out_max), 1.1 * least) << name;
    EXPECT_GE(double(sum.bytes_out_max), 0.999 * least) << name;
    std::printf(
        "%s: %lu bytes over the busiest link, least %.0f, flat %lu; %lu messages, flat %lu\n",
        name.c_str(), sum.bytes_out_max, least, plain.bytes_out_max, sum.messages, plain.messages);
  }
}

TEST(TwoLevel, ASmallAllreduceCrossesInAQuarterOfTheMessages) {
  const OpDesc op = vector_op(OpKind::kAllreduce, 1024);
  const Target target = hosts({2, 2, 2, 2});
  EXPECT_EQ(crossing(op, target).messages, 24u);
  EXPECT_EQ(crossing_when_flat(op, target).messages, 96u);
}

TEST(TwoLevel, HostsOfOneRankEachArePlannedAsIfNothingWereKnownOfThem) {
  std::mt19937_64 random(3);
  for (const OpKind kind : {OpKind::kBarrier, OpKind::kAllreduce, OpKind::kAllgather,
                            OpKind::kReduceScatter, OpKind::kBroadcast, OpKind::kSendRecv}) {
    for (const int64_t count : {1, 1000, 300'000}) {
      const Target target = hosts({1, 1, 1, 1});
      TextOp words{.kind = kind};
      if (kind != OpKind::kBarrier) words.count = count;
      if (kind == OpKind::kSendRecv) words.peer = 1;
      Plan plan = made(op_desc(words), target);
      plan.target.host_of.clear();
      EXPECT_TRUE(plan == made(op_desc(words), flat(target)));
    }
  }
}

TEST(TwoLevel, OtherOperationsCrossOnceForEachHost) {
  const Target target = hosts({2, 2, 2, 2});
  // A block of 4 KB: to each other host, from each of two ranks.
  EXPECT_EQ(crossing(vector_op(OpKind::kAllgather, 1024), target).bytes_out_max, 2u * 3 * 4096);
  EXPECT_EQ(crossing_when_flat(vector_op(OpKind::kAllgather, 1024), target).bytes_out_max,
            2u * 6 * 4096);
  EXPECT_EQ(crossing(vector_op(OpKind::kBroadcast, 1024), target).bytes_out_max, 3u * 4096);
  EXPECT_EQ(crossing(vector_op(OpKind::kBroadcast, 1 << 20), target).bytes_out_max, 1u << 22);
  EXPECT_EQ(crossing_when_flat(vector_op(OpKind::kBroadcast, 1 << 20), target).bytes_out_max,
            6u << 22);
  // Of 8 blocks all go up, and no more than 6 come back from the last host.
  EXPECT_EQ(crossing(vector_op(OpKind::kReduceScatter, 1 << 18), target).bytes_out_max, 8u << 20);
  EXPECT_EQ(crossing_when_flat(vector_op(OpKind::kReduceScatter, 1 << 18), target).bytes_out_max,
            12u << 20);
  EXPECT_EQ(crossing(vector_op(OpKind::kReduceScatter, 128), target).messages, 24u);
  EXPECT_EQ(crossing_when_flat(vector_op(OpKind::kReduceScatter, 128), target).messages, 48u);
}

TEST(TwoLevel, LargeHostsTakeLittleMoreMemoryThanFlatPlans) {
  constexpr uint64_t kLittle = 4 << 20;
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 15}, {15, 1}, {8, 8}, {1, 31}, {16, 16}, {1, 31, 31}, {31, 1, 31}, {31, 31, 1}}) {
    const Target target = hosts(sizes);
    for (const OpKind kind : {OpKind::kBroadcast, OpKind::kAllreduce, OpKind::kAllgather}) {
      for (const int64_t count : {1 << 12, 1 << 14, 1 << 17, 1 << 22}) {
        const OpDesc op = vector_op(kind, count);
        const Plan plan = made(op, target), plain = made(op, flat(target));
        uint64_t most = 0, most_flat = 0;
        for (uint32_t rank = 0; rank < target.world_size; ++rank) {
          most = std::max(most, workspace_bytes(plan, rank, 1));
          most_flat = std::max(most_flat, workspace_bytes(plain, rank, 1));
        }
        EXPECT_LE(most, std::max(kLittle, 3 * most_flat))
            << sizes[0] << "+" << sizes[1] << " " << int(kind) << " " << count;
      }
    }
  }
}

// Where one rank of each host carries, the others get results, and nothing else.
TEST(TwoLevel, WhoCarriesNoSumsNeedsNoMemoryForThem) {
  constexpr int64_t kCount = 1 << 22;
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{1, 31, 31}, {31, 1, 31}, {31, 31, 1}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Target target = hosts(sizes);
      const OpDesc op = vector_op(OpKind::kAllreduce, kCount, dtype);
      ASSERT_EQ(algo::choose_levels(op, target).levels, Levels::kAlongHosts);
      const Plan plan = made(op, target);
      const algo::Hosts some(target);
      for (uint32_t rank = 0; rank < target.world_size; ++rank) {
        if (some.place(rank) == 0) continue;
        EXPECT_LE(workspace_bytes(plan, rank, 1), kCount * dtype_bytes(dtype) / 3) << rank;
      }
    }
  }
}

// Hosts that take turns by rank: `count` of them with so many ranks each.
Target taking_turns(uint32_t count, uint32_t ranks) {
  Target target{.world_size = count * ranks, .mapped = false};
  for (uint32_t rank = 0; rank < target.world_size; ++rank) target.host_of.push_back(rank % count);
  return target;
}

// The forms of large worlds, in a small one.
TEST(TwoLevel, WhatGoesFromEachToTheNextGoesHostByHost) {
  const Target target = taking_turns(3, 4);
  OpDesc op = vector_op(OpKind::kAllgather, 1024);
  const CrossingSum gather =
      sum_of(crossing_of(algo::allgather_ring(op, target, all_of(target.world_size))));
  EXPECT_EQ(gather.bytes_out_max, 11u * 4096);  // All blocks but that of who gets it.
  for (const int32_t root : {0, 5, 11}) {
    op = op_desc({.kind = OpKind::kBroadcast, .root = root, .count = 1024});
    const CrossingSum sum =
        sum_of(crossing_of(algo::broadcast_chain(op, target, all_of(target.world_size))));
    EXPECT_EQ(sum.bytes_out_max, 4096u) << root;
  }
}

TEST(TwoLevel, SumsOfManyRanksOfHostsThatTakeTurnsSayThatTheyCross) {
  const auto why = [](OpKind kind, const Target& target) {
    return algo::choose_levels(vector_op(kind, 1024), target).why_flat;
  };
  EXPECT_THAT(why(OpKind::kAllreduce, taking_turns(2, 40)), HasSubstr("hosts take turns"));
  EXPECT_THAT(why(OpKind::kBroadcast, taking_turns(2, 40)), HasSubstr("host by host"));
  EXPECT_THAT(why(OpKind::kAllreduce, hosts({40, 40})), HasSubstr("host by host"));
}

// Over the link both forms cost the same.
TEST(TwoLevel, ALargeBroadcastBetweenTwoHostsIsTakenByAllOfTheOther) {
  constexpr int64_t kCount = 1 << 20;
  const auto levels = [](int64_t count, const Target& target) {
    return algo::choose_levels(vector_op(OpKind::kBroadcast, count), target).levels;
  };
  const Target two = hosts({4, 4});
  EXPECT_EQ(levels(1024, two), Levels::kOncePerHost);
  EXPECT_EQ(levels(kCount, hosts({4, 1})), Levels::kOncePerHost);
  ASSERT_EQ(levels(kCount, two), Levels::kAlongHosts);
  const Plan plan = made(vector_op(OpKind::kBroadcast, kCount), two);
  EXPECT_EQ(sum_of(crossing_of(plan)).bytes_out_max, kCount * sizeof(float));
  for (uint32_t rank = 4; rank < 8; ++rank) {
    uint64_t handed_on = 0;
    for (const Task& task : plan.ranks[rank].tasks)
      if (task.op == TaskOp::kPut) handed_on += plan.ranks[rank].regions_of(task)[0].row_bytes;
    EXPECT_EQ(handed_on, 3u * kCount) << rank;  // To three others, a quarter of four bytes each.
  }
}

// One rank would join what fifteen have.
TEST(TwoLevel, ALargeHostBesideASmallOneLeavesNoRankAllTheWork) {
  EXPECT_EQ(algo::choose_levels(vector_op(OpKind::kAllreduce, 1 << 22), hosts({1, 15})).levels,
            Levels::kFlat);
  EXPECT_EQ(algo::choose_levels(vector_op(OpKind::kAllreduce, 1 << 22), hosts({8, 8})).levels,
            Levels::kAlongHosts);
}

TEST(TwoLevel, WhatDoesNotFitStaysFlatAndSaysWhy) {
  const Target four = hosts({2, 2, 2, 2});
  Target mixed = hosts({2, 2});
  mixed.host_of = {0, 1, 0, 1};
  const auto why = [](const OpDesc& op, const Target& target) {
    const algo::Choice choice = algo::choose_levels(op, target);
    EXPECT_EQ(choice.levels, Levels::kFlat);
    EXPECT_EQ(crossing(op, target).messages, crossing_when_flat(op, target).messages);
    return std::string(choice.why_flat == nullptr ? "" : choice.why_flat);
  };
  EXPECT_THAT(why(vector_op(OpKind::kAllreduce, 1 << 20), mixed), HasSubstr("do not follow"));
  EXPECT_THAT(
      why(op_desc({.kind = OpKind::kAllreduce, .redop = RedOp::kAvg, .count = 1 << 20}), four),
      HasSubstr("average"));
  EXPECT_THAT(why(vector_op(OpKind::kAllreduce, 8192), four), HasSubstr("costs less"));
  EXPECT_EQ(why(vector_op(OpKind::kAllreduce, 8192), hosts({1, 1, 1})), "");
  // Small messages need no order of hosts, and averages are made at once.
  EXPECT_EQ(algo::choose_levels(vector_op(OpKind::kAllreduce, 100), mixed).levels, Levels::kWhole);
  EXPECT_EQ(algo::choose_levels(vector_op(OpKind::kAllgather, 100), mixed).levels,
            Levels::kOncePerHost);
}

}  // namespace
}  // namespace sk
