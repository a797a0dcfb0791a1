// Plans of ranks of several hosts: whatever form they have they are judged and computed like any.
// SK_SEED=N replays a seed, SK_CASES=N runs more.
#include <fmt/format.h>

#include <cstdlib>

#include "lib/algo/two_level.h"
#include "lib/plan/text.h"
#include "tests/support/worlds.h"
#include "tests/unit/algo/hosts_plans.h"

namespace sk {
namespace {

using algo::Levels;
using namespace testing_support;

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
  words.k = int64_t(random() % (random() % 4 ? 20 : 300));  // The first queue multiplies, too.
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
