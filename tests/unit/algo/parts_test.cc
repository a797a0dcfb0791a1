// Plans that are judged part by part. The judge of whole worlds is the oracle: what all ranks'
// parts pass, it must pass, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/algo/large_worlds.h"
#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/plan/builder.h"
#include "lib/plan/validate.h"
#include "tests/support/loose_part.h"
#include "tests/support/op_words.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

// An operation of a form, in a world small enough to be judged whole.
struct FormCase {
  Plan world;
  FlowsOf flows;
};

// SK_TEST_PARTS=N: so many times as many rounds, and of what is to be found in them; 0.1 is a
// tenth.
int rounds(int usual) {
  const char* times = std::getenv("SK_TEST_PARTS");
  return times != nullptr ? std::max(1, int(usual * std::atof(times))) : usual;
}

template <typename T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return from.begin()[random() % from.size()];
}

std::vector<uint32_t> all_of(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) all[rank] = rank;
  return all;
}

// In any order.
std::vector<uint32_t> any_hosts(std::mt19937_64& random, uint32_t ranks) {
  std::vector<uint32_t> least(1 + random() % ranks, UINT32_MAX), host_of;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint32_t& first = least[random() % least.size()];
    first = std::min(first, rank);
    host_of.push_back(first);
  }
  const bool one = std::ranges::count(host_of, 0u) == ptrdiff_t(ranks);
  return one ? std::vector<uint32_t>() : host_of;
}

FormCase product_case(std::mt19937_64& random, uint32_t ranks) {
  TextOp words{.kind = OpKind::kAllgatherGemm,
               .dtype = pick(random, {DType::kF32, DType::kF64, DType::kBF16}),
               .pack_b = random() % 2 == 0,
               .m = int64_t(1 + random() % 40),
               .n = int64_t(1 + random() % 20),
               .k = int64_t(random() % 9)};
  words.out_dtype = words.dtype;
  words.lda = words.k + int64_t(random() % 2 * 3);
  words.lda = std::max<int64_t>(1, words.lda);
  words.ldc = words.n + int64_t(random() % 2);
  words.ldb = words.pack_b ? words.n : 0;
  const OpDesc op = op_desc(words);
  Target target{.world_size = ranks,
                .mapped = false,
                .workers = uint32_t(1 + random() % 3),
                .tile_m = uint32_t(2 + random() % 8),
                .tile_n = uint32_t(4 + random() % 16)};
  const uint64_t column = uint64_t(words.k) * dtype_bytes(words.dtype);
  target.packed_bytes = words.k == 0 ? 64 : uint64_t(words.n) * column;
  if (words.pack_b && random() % 2) target.packed_pitch = column;
  if (words.pack_b) target.raw_b = random() % 3 == 0;
  if (random() % 2) target.host_of = any_hosts(random, ranks);
  EXPECT_TRUE(algo::allgather_gemm_ring_does(op, target));
  return {algo::allgather_gemm_ring(op, target, all_of(ranks)),
          algo::allgather_gemm_ring_flows(op, target)};
}

FormCase any_case(std::mt19937_64& random, uint32_t ranks) {
  const OpKind kind = pick(random, {OpKind::kAllreduce, OpKind::kReduceScatter, OpKind::kAllgather,
                                    OpKind::kBroadcast, OpKind::kAllgatherGemm});
  if (kind == OpKind::kAllgatherGemm) return product_case(random, ranks);
  TextOp words{.kind = kind,
               .dtype = pick(random, {DType::kF32, DType::kF64, DType::kI32, DType::kI64}),
               .redop = RedOp::kSum,
               .in_place = kind != OpKind::kBroadcast && random() % 2 == 0,
               .count = int64_t(1 + random() % 3000)};
  if (kind == OpKind::kAllreduce || kind == OpKind::kReduceScatter) {
    words.redop = pick(random, {RedOp::kSum, RedOp::kMax, RedOp::kProd});
    words.dtype = pick(
        random, {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBF16, DType::kF16});
  } else {
    words.dtype = pick(random, {DType::kF32, DType::kBF16, DType::kI32, DType::kF64});
  }
  if (kind == OpKind::kBroadcast) words.root = int32_t(random() % ranks);
  const OpDesc op = op_desc(words);
  Target target{.world_size = ranks,
                .mapped = false,
                .chunk_bytes = uint64_t(64) << (random() % 6),
                .slot_count = uint32_t(2 + random() % 4)};
  if (random() % 2) target.host_of = any_hosts(random, ranks);
  const std::vector<uint32_t> all = all_of(ranks);
  switch (kind) {
    case OpKind::kAllgather:
      return {algo::allgather_ring(op, target, all), algo::allgather_ring_flows(op, target)};
    case OpKind::kBroadcast:
      return {algo::broadcast_chain(op, target, all), algo::broadcast_chain_flows(op, target)};
    default:
      return {algo::sum_chain(op, target, all), algo::sum_chain_flows(op, target)};
  }
}

// The first rank's refusal, or OK.
Status all_parts(const Plan& world, const FlowsOf& flows) {
  for (const RankPlan& part : world.ranks) {
    Status status = validate_part(part_of(world, part.rank), flows);
    if (!status.ok()) return status;
  }
  return {};
}

TEST(Parts, OfEveryFormAreJudgedAsTheirWorldIsAndComputeTheirOperation) {
  std::mt19937_64 random(20);
  for (int round = 0; round < rounds(200); ++round) {
    const FormCase made = any_case(random, 2 + uint32_t(random() % 8));
    const Status parts = all_parts(made.world, made.flows);
    ASSERT_TRUE(parts.ok()) << describe(made.world.op) << ": " << parts.message();
    const Status whole = validate(made.world);
    ASSERT_TRUE(whole.ok()) << describe(made.world.op) << ": " << whole.message();
    World data = random_world(made.world, /*runs=*/3, random);
    const Status ran = run_reference(made.world, data, random());
    ASSERT_TRUE(ran.ok()) << describe(made.world.op) << ": " << ran.message();
    ASSERT_EQ(first_difference(made.world, data), "") << describe(made.world.op);
  }
}

// One change of one task, of a queue's order, or of what a task names.
void change(LoosePart& part, std::mt19937_64& random) {
  std::vector<LooseTask>& queue = part.queues[random() % part.queues.size()];
  const size_t at = random() % queue.size();
  LooseTask& task = queue[at];
  const int64_t step = pick<int64_t>(random, {-1, 1, 2});
  switch (random() % 12) {
    case 0:
      if (!task.waits.empty())
        task.waits.erase(task.waits.begin() + ptrdiff_t(random() % task.waits.size()));
      break;
    case 1:
      if (!task.waits.empty()) task.waits[random() % task.waits.size()].target += uint32_t(step);
      break;
    case 2:
      if (!task.waits.empty()) task.waits[random() % task.waits.size()].signal += uint32_t(step);
      break;
    case 3:
      if (!task.posts.empty() && task.task.op != TaskOp::kPut) task.posts.pop_back();
      break;
    case 4:
      if (!task.posts.empty()) task.posts[0].signal += uint32_t(step);
      break;
    case 5:
      task.task.flags ^= pick<uint8_t>(random, {kAfterAll, kPostsInOrder});
      break;
    case 6:
      if (!task.regions.empty())
        task.regions[random() % task.regions.size()].offset += uint64_t(64 * step);
      break;
    case 7:
      if (!task.regions.empty())
        task.regions[random() % task.regions.size()].buffer += uint32_t(step);
      break;
    case 8:
      for (Region& region : task.regions) region.row_bytes = region.pitch = region.row_bytes / 2;
      break;
    case 9:
      if (!task.params.empty()) task.params[random() % task.params.size()] += step;
      break;
    case 10: {  // To another place in its queue.
      LooseTask moved = task;
      queue.erase(queue.begin() + ptrdiff_t(at));
      queue.insert(queue.begin() + ptrdiff_t(random() % (queue.size() + 1)), moved);
      break;
    }
    default:  // A credit, or a chunk, for another.
      if (!task.posts.empty()) {
        const LooseTask& other = queue[random() % queue.size()];
        if (!other.posts.empty()) task.posts = other.posts;
      }
      break;
  }
}

TEST(Parts, WhatAllOfThemPassTheWorldPasses) {
  std::mt19937_64 random(21);
  int refused = 0, passed = 0, deadlocks = 0, races = 0, wrong = 0;
  for (int round = 0; round < rounds(4000); ++round) {
    const FormCase made = any_case(random, 2 + uint32_t(random() % 4));
    Plan world = made.world;
    const uint32_t rank = uint32_t(random() % world.ranks.size());
    LoosePart loose = take_apart(world.ranks[rank]);
    for (uint64_t changes = 1 + random() % 2; changes > 0; --changes) change(loose, random);
    world.ranks[rank] = put_together(loose);
    const Status part = validate_part(part_of(world, rank), made.flows);
    if (!part.ok()) {
      ++refused;
      deadlocks += part.message().find("rule a") != std::string::npos;
      races += part.message().find("rule c") != std::string::npos;
      wrong += part.message().find("rule e") != std::string::npos;
      continue;
    }
    ++passed;
    const Status whole = validate(world);
    ASSERT_TRUE(whole.ok()) << describe(world.op) << ", rank " << rank << ": " << whole.message();
  }
  // That most changes are seen, of each kind, is what makes the rest worth anything.
  EXPECT_GT(refused, rounds(2000));
  EXPECT_GT(deadlocks, rounds(50));
  EXPECT_GT(races, rounds(50));
  EXPECT_GT(wrong, rounds(50));
  EXPECT_GT(passed, rounds(20));
}

// Changed alike at all ranks: what goes wrong between them then is in nobody's part alone.
TEST(Parts, WhatAllOfThemPassTheWorldPassesWhereAllAreChanged) {
  std::mt19937_64 random(24);
  int passed = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    const FormCase made = any_case(random, 2 + uint32_t(random() % 3));
    Plan world = made.world;
    const uint64_t seed = random();
    for (RankPlan& part : world.ranks) {
      std::mt19937_64 same(seed);
      LoosePart loose = take_apart(part);
      change(loose, same);
      part = put_together(loose);
    }
    if (!all_parts(world, made.flows).ok()) continue;
    ++passed;
    const Status whole = validate(world);
    ASSERT_TRUE(whole.ok()) << describe(world.op) << ": " << whole.message();
  }
  EXPECT_GT(passed, rounds(20));
}

// A part by itself is worth the trouble only where it stays small: in a thousand ranks' world.
TEST(Parts, OfAThousandRanksAreSmall) {
  constexpr uint32_t kMany = 1024;
  const OpDesc ops[] = {
      op_desc({.kind = OpKind::kAllreduce, .count = 4 << 20}),
      op_desc({.kind = OpKind::kReduceScatter, .count = 4096}),
      op_desc({.kind = OpKind::kAllgather, .count = 4096}),
      op_desc({.kind = OpKind::kBroadcast, .root = 3, .count = 4 << 20}),
      op_desc({.kind = OpKind::kBarrier}),
      op_desc(
          {.kind = OpKind::kAllgatherGemm, .m = 64, .n = 512, .k = 4096, .lda = 4096, .ldc = 512})};
  for (const OpDesc& op : ops) {
    Target target{.world_size = kMany, .mapped = false, .workers = 2};
    if (op.kind() == OpKind::kAllgatherGemm) target.packed_bytes = 4096 * 512 * 4;
    const std::optional<FlowsOf> flows = flows_of(op, target);
    ASSERT_TRUE(flows) << describe(op);
    for (const uint32_t rank : {0u, 1u, kMany / 2, kMany - 1}) {
      const Plan part = make_plan_part(op, target, rank).value();
      EXPECT_EQ(validate_part(part, *flows).message(), "") << describe(op) << ", rank " << rank;
      const RankPlan& its = part.ranks[0];
      const uint64_t bytes = part.buffers.size() * sizeof(Buffer) +
                             its.tasks.size() * sizeof(Task) + its.regions.size() * sizeof(Region) +
                             its.params.size() * 8 + its.waits.size() * sizeof(Wait) +
                             its.posts.size() * sizeof(Post);
      EXPECT_LT(bytes, 10u << 20) << describe(op);
      EXPECT_LT(workspace_bytes(part, rank, 1), 32u << 20) << describe(op);
    }
  }
}

// Of a chain's inner rank: what has come goes on before it is copied, so that its first byte does
// not wait for a copy at each rank.
TEST(Parts, OfAChainPassOnBeforeTheyCopy) {
  const Target target{.world_size = 70, .mapped = false};
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast}) {
    const OpDesc op = op_desc({.kind = kind, .dtype = DType::kF32, .count = 5000});
    Result<Plan> made = make_plan_part(op, target, 30);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const RankPlan& part = made->ranks[0];
    size_t copies = 0;
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      if (part.tasks[i].op != TaskOp::kCopy) continue;
      ++copies;
      const Region& slot = part.regions_of(part.tasks[i])[0];
      ASSERT_EQ(part.tasks[i - 1].op, TaskOp::kPut);
      const Region& sent = part.regions_of(part.tasks[i - 1])[0];
      EXPECT_EQ(sent.buffer, slot.buffer);
      EXPECT_EQ(sent.offset, slot.offset);
      EXPECT_TRUE(part.tasks[i].flags & kAfterAll) << "gives a slot back that is being read";
    }
    EXPECT_GT(copies, 0u);
  }
}

// Where puts carry little what a rank passes on would be more pieces than a plan has, and their
// number more than 32 bits hold.
TEST(Parts, OfTooManyPiecesAreRefused) {
  const Target target{.world_size = 100, .mapped = false, .put_bytes_max = 8};
  for (const int64_t count : {int64_t(1) << 24, int64_t(1) << 32, int64_t(1) << 40}) {
    for (const OpKind kind :
         {OpKind::kAllreduce, OpKind::kReduceScatter, OpKind::kAllgather, OpKind::kBroadcast}) {
      const OpDesc op = op_desc({.kind = kind, .dtype = DType::kF64, .count = count});
      const Result<Plan> made = make_plan_part(op, target, 30);
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.status().code(), SK_ERR_UNSUPPORTED);
      EXPECT_THAT(made.status().message(), HasSubstr("where a put carries 8 bytes"));
    }
  }
}

// A refusal's numbers are those of a small world; it says what they are in the plan.
TEST(Parts, ThatAreRefusedSayWhichBuffersAreMeant) {
  const Target target{.world_size = 70, .mapped = false};
  const OpDesc op = op_desc({.kind = OpKind::kBroadcast, .dtype = DType::kF32, .count = 10});
  Result<Plan> made = make_plan_part(op, target, 30);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Plan& part = *made;
  const uint32_t out = 30;  // Outputs come first.
  ASSERT_EQ(part.buffers[out].owner, 30u);
  for (Task& task : part.ranks[0].tasks) {
    if (task.op == TaskOp::kCopy) part.ranks[0].regions[task.first_region + 1].offset = 4096;
  }
  const Status status = validate_part(part, *flows_of(op, target));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("buffer 0"));
  EXPECT_THAT(status.message(), HasSubstr("of the buffers 0 is 30,"));
}

// Flows that both ends see changed alike: whatever parts pass with them is sound, and most are not
// what the parts do.
TEST(Parts, KeepTheFlowsThatTheyAreJudgedWith) {
  std::mt19937_64 random(22);
  int refused = 0, changes = 0;
  for (int round = 0; round < rounds(600); ++round) {
    const FormCase made = any_case(random, 2 + uint32_t(random() % 4));
    const uint32_t from = uint32_t(random() % (made.world.ranks.size() - 1));
    const uint64_t what = random() % 7, which = random(), step = 1 + random() % 2;
    bool is_changed = false;
    const FlowsOf changed = [&](uint32_t rank) {
      std::vector<Flow> flows = made.flows(rank);
      for (Flow& flow : flows) {
        if (flow.from != from || flow.to != from + 1) continue;
        Chunk& chunk = flow.chunks[which % flow.count()];
        // A slot more than chunks, and from whom what nobody joins is said to come up to, are
        // alike.
        is_changed |= (what != 0 || flow.count() > flow.slots) &&
                      (what != 1 || chunk.content.joined) && (what != 4 || chunk.bytes > 1) &&
                      (what != 5 || flow.count() > 1);
        if (what == 0) flow.slots += uint32_t(step);
        if (what == 1) chunk.content.last += uint32_t(step);
        if (what == 2) chunk.content.column += step;
        if (what == 3) flow.credit += uint32_t(step);
        if (what == 4) chunk.bytes -= std::min<uint64_t>(chunk.bytes - 1, 8 * step);
        if (what == 5) flow.slot_bytes += 64 * step;
        if (what == 6) flow.chunks.pop_back();
        if (flow.chunks.empty()) flow.slots = 0;
      }
      return flows;
    };
    const bool ok = all_parts(made.world, changed).ok();
    changes += is_changed ? 1 : 0;
    refused += is_changed && !ok ? 1 : 0;
  }
  EXPECT_GT(changes, rounds(300));
  EXPECT_GT(refused, changes * 9 / 10);
}

TEST(Parts, OfRanksThatSeeAFlowOtherwiseAreRefused) {
  std::mt19937_64 random(23);
  const FormCase made = any_case(random, 4);
  const FlowsOf torn = [&](uint32_t rank) {
    std::vector<Flow> flows = made.flows(rank);
    for (Flow& flow : flows) {
      if (rank == 1 && flow.to == 2) ++flow.chunks[0].sent;
    }
    return flows;
  };
  const Status status = validate_part(part_of(made.world, 1), torn);
  EXPECT_EQ(status.code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("ranks 1 and 2 see what passes between them otherwise"));
}

}  // namespace
}  // namespace sk
