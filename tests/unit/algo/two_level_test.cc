// Plans of ranks of several hosts: what crosses is counted, and whatever form they have they are
// judged and computed like any. SK_SEED=N replays a seed, SK_CASES=N runs more.
#include "lib/algo/two_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "lib/algo/large_worlds.h"
#include "lib/algo/planner.h"
#include "lib/plan/crossing.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using algo::Levels;
using testing::HasSubstr;
using namespace testing_support;

// Hosts with so many ranks each, one after another.
Target hosts(const std::vector<uint32_t>& sizes) {
  Target target{.mapped = false};
  for (const uint32_t size : sizes) {
    const auto first = uint32_t(target.host_of.size());
    target.host_of.insert(target.host_of.end(), size, first);
  }
  target.world_size = uint32_t(target.host_of.size());
  return target;
}

Target flat(Target target) {
  target.host_of.clear();
  return target;
}

Plan made(const OpDesc& op, const Target& target) {
  Result<Plan> plan = make_plan(op, target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  const Status status = validate(*plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return std::move(plan.value());
}

CrossingSum crossing(const OpDesc& op, const Target& target) {
  return sum_of(crossing_of(made(op, target)));
}
// Of the plan that knows nothing of hosts.
CrossingSum crossing_when_flat(const OpDesc& op, const Target& target) {
  Plan plan = made(op, flat(target));
  plan.target.host_of = target.host_of;
  return sum_of(crossing_of(plan));
}

OpDesc vector_op(OpKind kind, int64_t count, DType dtype = DType::kF32) {
  return op_desc({.kind = kind, .dtype = dtype, .count = count});
}

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

OpDesc product_op(int64_t m, int64_t n, int64_t k, DType dtype = DType::kF32,
                  DType out_dtype = DType::kF32) {
  return op_desc({.kind = OpKind::kAllreduceGemm,
                  .dtype = dtype,
                  .out_dtype = out_dtype,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = k,
                  .ldc = n});
}
OpDesc gather_op(int64_t m, int64_t n, int64_t k) {
  return op_desc({.kind = OpKind::kAllgatherGemm,
                  .dtype = DType::kF32,
                  .out_dtype = DType::kF32,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = k,
                  .ldc = n});
}
Target with_packed(Target target, const OpDesc& op) {
  const GemmCall call = gemm_call(op);
  target.packed_bytes = uint64_t(call.n) * uint64_t(call.k) * dtype_bytes(call.dtype);
  return target;
}

// Tiles of products go up as sums, and come back as they end.
TEST(TwoLevel, AProductsSumsCrossOnceForEachHost) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1}, {2, 2}, {2, 2, 2, 2}, {4, 4}, {3, 1}, {1, 3, 2}}) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const OpDesc op =
          product_op(1000, 1100, 64, out == DType::kF32 ? DType::kF32 : DType::kBF16, out);
      const Target target = with_packed(hosts(sizes), op);
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

TEST(TwoLevel, ProductsOfLargeHostsTakeLittleMoreMemoryThanFlatPlans) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 2}, {8, 8}, {16, 16}, {4, 4, 4, 4}, {31, 1, 31}}) {
    for (const int64_t n : {256, 1024, 4096}) {
      const OpDesc op = product_op(1024, n, 8);
      const Target target = with_packed(hosts(sizes), op);
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

std::vector<uint32_t> all_of(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0u);
  return all;
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

struct FormCase {
  OpDesc op;
  Target target;
  Levels levels;
};

template <typename T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return from.begin()[random() % from.size()];
}

// Of a case that has its hosts.
void make_product(FormCase& c, std::mt19937_64& random) {
  const DType dtype = pick(random, {DType::kF32, DType::kF64, DType::kBF16, DType::kF16});
  TextOp words{.kind = random() % 3 ? OpKind::kAllreduceGemm : OpKind::kAllgatherGemm,
               .dtype = dtype};
  words.out_dtype = random() % 2 ? DType::kF32 : dtype;
  words.symmetric_in = random() % 2;
  words.symmetric_out = random() % 2;
  words.transpose_a = random() % 2;
  words.pack_b = random() % 2;
  words.transpose_b = words.pack_b && random() % 2;
  words.m = int64_t(1 + random() % 60);
  words.n = int64_t(1 + random() % 60);
  words.k = int64_t(random() % 20);
  words.lda = (words.transpose_a ? words.m : words.k) + int64_t(random() % 3);
  words.ldb = words.pack_b ? (words.transpose_b ? words.k : words.n) + int64_t(random() % 3) : 0;
  words.ldc = words.n + int64_t(random() % 2 * (random() % 9));
  c.target.workers = uint32_t(1 + random() % 4);
  c.target.tile_m = uint32_t(1 + random() % 30);
  c.target.tile_n = uint32_t(8 * (1 + random() % 5));
  c.target.put_bytes_max = pick<uint64_t>(random, {UINT64_MAX, UINT64_MAX, 200, 64});
  c.levels = words.kind == OpKind::kAllreduceGemm ? Levels::kAlongHosts : Levels::kOncePerHost;
  c.op = op_desc(words);
  c.target = with_packed(c.target, c.op);
}

// Any form of any operation that has it, whatever it would cost.
FormCase any_case(std::mt19937_64& random) {
  FormCase c;
  std::vector<uint32_t> sizes(2 + random() % 6);
  for (uint32_t& size : sizes) size = uint32_t(1 + random() % 3);
  sizes[random() % sizes.size()] = uint32_t(2 + random() % 2);
  c.target = hosts(sizes);
  c.target.chunk_bytes = uint64_t(64) << (random() % 6);
  c.target.slot_count = uint32_t(1 + random() % 6);
  c.target.put_bytes_max = pick<uint64_t>(random, {UINT64_MAX, UINT64_MAX, 8, 200});
  if (random() % 4 == 0) {
    make_product(c, random);
    return c;
  }
  const OpKind kind = pick(random, {OpKind::kAllreduce, OpKind::kAllreduce, OpKind::kReduceScatter,
                                    OpKind::kAllgather, OpKind::kBroadcast});
  TextOp words{.kind = kind, .dtype = DType(SK_F32 + random() % 6)};
  words.count = int64_t(1 + random() % pick(random, {3u, 200u, 3000u}));
  words.in_place = random() % 2 && kind != OpKind::kBroadcast;
  words.symmetric_in = random() % 2;
  words.symmetric_out = random() % 2;
  const bool sums = kind == OpKind::kAllreduce || kind == OpKind::kReduceScatter;
  c.levels = pick(random, {Levels::kWhole, Levels::kAlongHosts, Levels::kAlongHosts});
  if (sums) {
    words.redop = RedOp(SK_SUM + random() % (is_float(words.dtype) ? 5 : 4));
    if (words.redop == RedOp::kAvg) c.levels = Levels::kWhole;
  } else {
    c.levels = kind == OpKind::kAllgather
                   ? Levels::kOncePerHost
                   : pick(random, {Levels::kOncePerHost, Levels::kAlongHosts});
  }
  if (c.target.put_bytes_max < 1000) words.count = 1 + words.count % 100;
  const uint32_t ranks = c.target.world_size;
  if (kind == OpKind::kBroadcast) words.root = int32_t(random() % ranks);
  if (c.levels == Levels::kWhole) c.target.put_bytes_max = UINT64_MAX;
  // Hosts whose ranks do not follow one another.
  if (random() % 3 == 0 && c.levels != Levels::kAlongHosts && kind != OpKind::kReduceScatter) {
    std::vector<uint32_t> shuffled(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) shuffled[rank] = c.target.host_of[rank];
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::vector<uint32_t> least(ranks, UINT32_MAX);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      least[shuffled[rank]] = std::min(least[shuffled[rank]], rank);
    for (uint32_t rank = 0; rank < ranks; ++rank) c.target.host_of[rank] = least[shuffled[rank]];
  }
  c.op = op_desc(words);
  return c;
}

Plan plan_of(const FormCase& c, std::span<const uint32_t> ranks) {
  const OpKind kind = c.op.kind();
  if (kind == OpKind::kAllgather || kind == OpKind::kBroadcast)
    return algo::relay(c.op, c.target, ranks, c.levels);
  if (kind == OpKind::kAllgatherGemm) {  // Has this form wherever ranks share hosts.
    Plan all = make_plan(c.op, c.target).value();
    return ranks.size() == 1 ? part_of(all, ranks[0]) : all;
  }
  if (kind == OpKind::kAllreduceGemm)
    return algo::allreduce_gemm_along_hosts(c.op, c.target, ranks);
  return c.levels == Levels::kWhole ? algo::sum_whole(c.op, c.target, ranks)
                                    : algo::sum_along_hosts(c.op, c.target, ranks);
}

uint64_t from_env(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(TwoLevelForms, AreValidAndComputeTheirOperationInAnyOrderOfTasks) {
  const uint64_t only = from_env("SK_SEED", 0);
  const uint64_t first = only ? only : 1, last = only ? only : from_env("SK_CASES", 250);
  for (uint64_t seed = first; seed <= last; ++seed) {
    std::mt19937_64 random(seed);
    const FormCase c = any_case(random);
    const Plan plan = plan_of(c, all_of(c.target.world_size));
    SCOPED_TRACE(fmt::format("SK_SEED={}, form {}: {}", seed, int(c.levels),
                             describe(Case{c.op, c.target})));
    const Status status = validate(plan);
    ASSERT_TRUE(status.ok()) << status.message();
    Result<Plan> back = parse(dump(plan));
    ASSERT_TRUE(back.ok()) << back.status().message();
    ASSERT_TRUE(*back == plan);
    for (uint32_t rank = 0; rank < c.target.world_size; ++rank) {
      const Plan alone = plan_of(c, std::span(&rank, 1));
      ASSERT_EQ(alone.buffers, plan.buffers);
      Plan part = part_of(plan, rank);
      ASSERT_TRUE(part == alone) << "rank " << rank;
    }
    World world = random_world(plan, /*runs=*/3, random);
    const Status ran = run_reference(plan, world, random());
    ASSERT_TRUE(ran.ok()) << ran.message();
    ASSERT_EQ(first_difference(plan, world), "");
  }
}

}  // namespace
}  // namespace sk
