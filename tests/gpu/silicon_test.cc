// What a GPU must compute: plans made on the CPU run unchanged and come out as their operations
// say, by 1 to 16 ranks in one launch, on whole numbers, so that every equality is exact. Without a
// GPU the same on the fake one, less of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda/exec/cut.h"
#include "cuda/exec/decode.h"
#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "tests/gpu/running.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/op_words.h"
#include "tests/support/worlds.h"

namespace sk::cuda {
namespace {

using namespace testing_support;

class Silicon : public testing::Test {
 protected:
  Silicon() {
    RecordProperty("seed", std::to_string(seed_));
    RecordProperty("device", Machine::get().device().name());
  }
  bool real() const { return Machine::get().is_real(); }
  void check(const Plan& plan, uint32_t runs) {
    Running running(plan);
    ASSERT_EQ(running.run_random(random_, runs), "") << "seed " << seed_;
  }
  // Of every order of magnitude alike.
  int64_t random_count(uint32_t orders) {
    return 1 + int64_t(random_() % (uint64_t(2) << random_() % orders));
  }

  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
};

// By ranks, so that each number of them can be run by itself.
const auto kRankCounts = testing::Values(1u, 2u, 4u, 8u, 12u, 16u);
std::string name_of(const testing::TestParamInfo<uint32_t>& info) {
  return std::to_string(info.param);
}

class Collectives : public Silicon, public testing::WithParamInterface<uint32_t> {
 protected:
  // On a fake GPU some do.
  bool is_left_out(OpKind kind, DType dtype, int64_t count) const {
    if (kind == OpKind::kBarrier && dtype != DType::kF32) return true;
    if (real()) return false;
    if (GetParam() > 8)
      return (kind != OpKind::kAllreduce && kind != OpKind::kAllgather) || dtype != DType::kF32 ||
             count != 127;
    const bool few = GetParam() == 2 || GetParam() == 8;
    if (few) return kind != OpKind::kAllreduce || dtype != DType::kF32 || count != 1;
    return (count == 127) != (dtype == DType::kBF16);
  }
  void check_case(OpKind kind, DType dtype, int64_t count) {
    const uint32_t ranks = GetParam();
    TextOp words{.kind = kind, .dtype = dtype, .count = count};
    words.symmetric_out = random_() % 2;
    words.symmetric_in = words.symmetric_out;
    const OpDesc op = kind == OpKind::kBarrier ? OpDesc() : op_desc(words);
    Target target{.world_size = ranks, .workers = Machine::get().workers(ranks)};
    if (!real()) target.workers = std::min(target.workers, 2u);
    cut_moves(target);
    if (random_() % 2)
      target.turn_bytes = target.queue_bytes_min = 256;  // Small vectors have turns.
    target.one_shot_bytes = random_() % 2 ? 4096 : 0;
    SCOPED_TRACE(describe({op, target}));
    Result<Plan> plan = make_plan(op, target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    check(*plan, real() ? 2 : 1);
  }
};

TEST_P(Collectives, OfEverySize) {
  std::vector<int64_t> counts = {1, 127, 4097};
  // What many ranks gather the CPU checks by the square of their number.
  const uint32_t orders = GetParam() > 8 ? 15 : 17;
  for (int i = 0; real() && i < 30; ++i) counts.push_back(random_count(orders));
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kReduceScatter,
                            OpKind::kBroadcast, OpKind::kBarrier}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t count : counts) {
        if (is_left_out(kind, dtype, count)) continue;
        check_case(kind, dtype, count);
        if (HasFatalFailure()) return;
        if (kind == OpKind::kBarrier) break;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, kRankCounts, name_of);

TEST_F(Silicon, RandomPlans) {
  const uint32_t blocks = Machine::get().workers(1);
  for (int made = 0; made < (real() ? 200 : 4);) {
    const Case c = random_case(random_, real() ? kLaunchRanksMax : 8);
    Result<Plan> plan = make_plan(c.op, c.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    bool able = c.target.workers * c.target.world_size <= blocks;
    for (const RankPlan& part : plan->ranks) able = able && check_part(*plan, part).ok();
    if (!able) continue;
    ++made;
    SCOPED_TRACE(describe(c));
    check(*plan, 2);
    if (HasFatalFailure()) return;
  }
}

std::filesystem::path golden_plans() {
  const char* folder = std::getenv("SK_GOLDEN_PLANS");
  return folder != nullptr ? folder : SK_SOURCE_DIR "/tests/golden/plans";
}

TEST_F(Silicon, PlansFromTheirTexts) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(golden_plans())) {
    SCOPED_TRACE(file.path());
    std::ifstream in(file.path());
    Result<Plan> plan = parse(std::string(std::istreambuf_iterator<char>(in), {}));
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    check(*plan, 3);
    if (HasFatalFailure()) return;
    ++count;
  }
  EXPECT_GE(count, 10);
}

class ProductCases : public Silicon {
 protected:
  void check_case(GemmCase c, DType dtype, uint32_t ranks) {
    c.dtype = dtype;
    c.out_dtype = random_() % 2 ? dtype : DType::kF32;
    c.ranks = ranks;
    c.workers = real() ? Machine::get().workers(ranks) : 1;
    SCOPED_TRACE(describe(c));
    check(plan_gemm(c), real() ? 2 : 1);
  }
};

class Products : public ProductCases, public testing::WithParamInterface<uint32_t> {
 protected:
  // On a fake GPU some do.
  bool is_left_out(const GemmCase& c, DType dtype) const {
    if (real()) return false;
    if (GetParam() != 2) return c.m > 100 || dtype != DType::kBF16;
    return c.m > 131 || (c.m > 100 && dtype != DType::kBF16);
  }
};

// Shapes that the copy engine can read and shapes that it cannot, which take the other kernel.
TEST_P(Products, OfEveryKernelAndType) {
  const GemmCase cases[] = {
      {.m = 128, .n = 256, .k = 64},
      {.m = 131, .n = 264, .k = 72},
      {.m = 131, .n = 264, .k = 72, .tile_n = 128},
      {.m = 70, .n = 33, .k = 67},
      {.m = 150, .n = 280, .k = 40, .symmetric = false},
      {.m = 136, .n = 72, .k = 50, .transpose_a = true, .transpose_b = true},
      {.m = 131, .n = 264, .k = 72, .raw_b = true},
      {.m = 131, .n = 264, .k = 72, .transpose_b = true, .pad_b = 8, .raw_b = true},
  };
  for (const GemmCase& c : cases) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      if (is_left_out(c, dtype)) continue;
      check_case(c, dtype, GetParam());
      if (HasFatalFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, Products, kRankCounts, name_of);

// Nobody packs it: both layouts, by wide blocks, narrow ones and pairs, and by the kernel that
// loads for itself where A is turned or rows of B lie at odd distances.
TEST_F(ProductCases, OfARawB) {
  const GemmCase cases[] = {
      {.m = 128, .n = 256, .k = 64},
      {.m = 131, .n = 264, .k = 72, .pad_b = 8},
      {.m = 300, .n = 520, .k = 328},
      {.m = 150, .n = 280, .k = 40, .symmetric = false},
      {.m = 136, .n = 72, .k = 48, .transpose_a = true},
      {.m = 70, .n = 33, .k = 67, .pad_b = 3},
  };
  for (const GemmCase& each : cases) {
    for (const bool turned_b : {false, true}) {
      for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
        GemmCase c = each;
        c.raw_b = true;
        c.transpose_b = turned_b;
        if (!real() && (c.m > 131 || dtype == DType::kF16)) continue;
        for (const uint32_t tile_n : {256u, 128u}) {
          c.tile_n = tile_n;
          check_case(c, dtype, /*ranks=*/1 + uint32_t(turned_b));
          if (HasFatalFailure()) return;
        }
        const uint32_t pair_workers = Machine::get().pair_workers(1);
        if (pair_workers == 0 || dtype == DType::kF32) continue;
        c.tile_n = c.tile_m = 256;
        c.dtype = c.out_dtype = dtype;
        c.ranks = 1;
        c.workers = real() ? pair_workers : 1;
        SCOPED_TRACE(describe(c));
        Running running(plan_gemm(c), {.pairs = true});
        ASSERT_EQ(running.run_random(random_, 2), "") << "seed " << seed_;
      }
    }
  }
}

// Two blocks of a cluster for each worker, where the GPU has kernels for that.
TEST_F(ProductCases, ByPairsOfBlocks) {
  if (Machine::get().pair_workers(1) == 0) return;
  for (const GemmCase& shape :
       {GemmCase{.m = 256, .n = 256, .k = 64}, GemmCase{.m = 300, .n = 264, .k = 328, .pad_c = 8},
        GemmCase{.m = 1000, .n = 520, .k = 520},
        GemmCase{.m = 259, .n = 80, .k = 72, .symmetric = false}}) {
    if (!real() && shape.m != 259) continue;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      for (const uint32_t ranks : {1u, 2u, 4u}) {
        if (!real() && ranks != 2) continue;
        GemmCase c = shape;
        c.dtype = c.out_dtype = dtype;
        c.ranks = ranks;
        c.tile_m = 256;
        c.workers = real() ? Machine::get().pair_workers(ranks) : 1;
        SCOPED_TRACE(describe(c));
        Running running(plan_gemm(c), {.pairs = true});
        ASSERT_EQ(running.run_random(random_, real() ? 2 : 1), "") << "seed " << seed_;
      }
    }
  }
}

TEST_F(ProductCases, OfRandomShapes) {
  constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kF32};
  for (int i = 0; i < (real() ? 30 : 1); ++i) {
    const uint64_t most = real() ? 400 : 80;
    GemmCase c{.m = 1 + int64_t(random_() % most),
               .n = 1 + int64_t(random_() % most),
               .k = 1 + int64_t(random_() % (most / 2))};
    c.symmetric = random_() % 2;
    c.transpose_b = random_() % 2;
    c.raw_b = random_() % 2;
    c.tile_n = random_() % 2 ? 128 : 256;
    check_case(c, kTypes[random_() % 3], 1u << random_() % (real() ? 5 : 2));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sk::cuda
