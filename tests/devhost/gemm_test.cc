// Matrix products as device code on the CPU, by all kernels: ragged edges, several blocks per tile,
// every epilogue, every type. Whole numbers, so that equality is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/op/ops/product.h"
#include "tests/devhost/kernels.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace devhost;
using namespace testing_support;

void check(const GemmCase& c, std::initializer_list<bool> kernels) {
  SCOPED_TRACE(describe(c));
  const Plan plan = plan_gemm(c);
  ASSERT_FALSE(plan.ranks.empty());
  std::mt19937_64 random(uint64_t(c.m * 31 + c.n));
  for (const bool boxes : kernels) {
    World world = testing_support::random_world(plan, /*runs=*/2, random);
    ASSERT_EQ(run(plan, world, {.one_launch = c.m % 2 == 0}, boxes), "") << "boxes " << boxes;
  }
}

// ThreadSanitizer makes products a hundred times slower; what it looks for is in every one of them.
#if defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

TEST(DeviceGemm, BlocksOfEveryRaggedness) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    if (kSlow && dtype == DType::kF16) break;
    check({.m = 128, .n = 256, .k = 64, .dtype = dtype, .out_dtype = dtype}, {true, false});
    check({.m = 131, .n = 264, .k = 72, .dtype = dtype, .out_dtype = dtype}, {true, false});
    check({.m = 1, .n = 8, .k = 200, .dtype = dtype, .out_dtype = dtype}, {true, false});
    check({.m = 65, .n = 257, .k = 8, .dtype = dtype, .out_dtype = dtype}, {true, false});
    // No multiples of 16 bytes: the copy engine cannot have them.
    check({.m = 70, .n = 33, .k = 67, .dtype = dtype, .out_dtype = dtype}, {true, false});
  }
}

TEST(DeviceGemm, EveryEpilogue) {
  for (const uint32_t ranks : {1u, 2u, 3u}) {
    for (const bool symmetric : {true, false}) {
      for (const DType out : {DType::kBF16, DType::kF32}) {
        if (kSlow && (ranks == 1 || out == DType::kF32)) continue;
        check({.m = 150,
               .n = 280,
               .k = 40,
               .out_dtype = out,
               .ranks = ranks,
               .symmetric = symmetric,
               .pad_c = 8},
              {true, false});
      }
    }
  }
  check({.m = 150, .n = 280, .k = 40, .symmetric = false, .mapped = false}, {true, false});
  check({.m = 40, .n = 281, .k = 40, .pad_c = 1}, {true});
}

// Each rank's product is one number. As f32, 1 + 2^24 is 2^24, so that the sum of 1, 2^24 and 1 in
// rank order is not what comes of the ones added first, as whoever begins with the own product, or
// ends with it, would have it on some rank.
TEST(DeviceGemm, PartialTilesAreAddedInRankOrder) {
  constexpr float kLarge = 1 << 24, kOfRank[] = {1, kLarge, 1};
  const Plan plan =
      plan_gemm({.m = 384, .n = 24, .k = 8, .out_dtype = DType::kF32, .ranks = 3, .workers = 1});
  std::mt19937_64 random(1);
  for (const bool boxes : {true, false}) {
    World world = testing_support::random_world(plan, /*runs=*/1, random);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      OperandBytes& operands = world.inputs[0][rank];
      const auto fill = [](std::vector<std::byte>& matrix, size_t every, float value) {
        std::fill(matrix.begin(), matrix.end(), std::byte{0});
        const uint16_t bits = f32_to_bf16(value);
        for (size_t at = 0; at < matrix.size(); at += 2 * every) std::memcpy(&matrix[at], &bits, 2);
      };
      fill(operands[GemmCall::kA], /*every=*/8, kOfRank[rank]);
      fill(operands[GemmCall::kB], /*every=*/1, 1);
    }
    DeviceWorld device(plan, kernel_for(plan, boxes), {});
    const Status status = device.run(world);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const OperandBytes& outputs : world.outputs[0]) {
      const std::vector<std::byte>& c = outputs[GemmCall::kC];
      ASSERT_EQ(c.size(), 384u * 24 * sizeof(float));
      for (size_t at = 0; at < c.size(); at += sizeof(float)) {
        float value;
        std::memcpy(&value, &c[at], sizeof value);
        ASSERT_EQ(value, kLarge) << at / sizeof(float);
      }
    }
  }
}

TEST(DeviceGemm, ManyTilesAndManySlices) {
  check({.m = 300, .n = kSlow ? 80 : 300, .k = 328, .ranks = 2, .workers = 2, .tile_n = 64},
        {true});
  if (kSlow) return;
  check({.m = 300, .n = 520, .k = 16, .ranks = 1, .workers = 1, .tile_m = 256, .tile_n = 512},
        {true, false});
}

// Plans of narrow tiles take kernels of narrow blocks, whatever the tiles are by the time.
TEST(DeviceGemm, NarrowBlocks) {
  const auto narrow = [](GemmCase c) {
    c.tile_n = 128;
    check(c, {true});
  };
  narrow({.m = 131, .n = 264, .k = 72});
  narrow({.m = 65, .n = 129, .k = 328, .dtype = DType::kF16, .out_dtype = DType::kF16});
  narrow({.m = 150, .n = 280, .k = 40, .out_dtype = DType::kF32, .ranks = 3, .pad_c = 8});
  if (kSlow) return;
  narrow({.m = 1, .n = 8, .k = 200});
  narrow({.m = 40, .n = 281, .k = 40, .pad_c = 1});
  narrow({.m = 300, .n = 520, .k = 456, .ranks = 1, .workers = 2, .tile_m = 256});
  narrow({.m = 150, .n = 280, .k = 40, .symmetric = false});
  narrow({.m = 150, .n = 280, .k = 40, .symmetric = false, .mapped = false});
}

// The rows of A come from peers' memory, or from copies of it; each kernel that is named must run.
void check_gathered(GemmCase c, bool boxes) {
  c.gathers = true;
  SCOPED_TRACE(describe(c));
  const Plan plan = plan_gemm(c);
  ASSERT_FALSE(plan.ranks.empty());
  const Kernel kernel = kernel_for(plan);
  std::atomic<uint32_t> by_boxes{0}, by_itself{0};
  const auto counted = [&](const cuda::BoxLaunchArgs& args, bool have_boxes) {
    ++(have_boxes ? by_boxes : by_itself);
    kernel(args, have_boxes);
  };
  std::mt19937_64 random(uint64_t(c.m * 31 + c.n));
  World world = testing_support::random_world(plan, /*runs=*/3, random);
  DeviceWorld device(plan, counted, {.one_launch = c.m % 2 == 0});
  const Status status = device.run(world);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(first_difference(plan, world), "");
  EXPECT_EQ(by_boxes > 0, boxes);
  EXPECT_EQ(by_itself > 0, !boxes);
}

TEST(DeviceGemm, RowsOfPeers) {
  for (const bool symmetric : {true, false}) {
    check_gathered({.m = 150, .n = 40, .k = 72, .ranks = 3, .symmetric = symmetric}, true);
    if (kSlow) continue;
    check_gathered({.m = 129, .n = 280, .k = 40, .symmetric = symmetric, .pad_a = 8}, true);
    check_gathered({.m = 300, .n = 24, .k = 40, .symmetric = symmetric, .tile_n = 128}, true);
    // Rows of 67 elements: the copy engine cannot have them, nor copies of them that are dense.
    check_gathered({.m = 70, .n = 33, .k = 67, .symmetric = symmetric}, false);
    check_gathered({.m = 70, .n = 33, .k = 67, .symmetric = symmetric, .pad_a = 5}, symmetric);
  }
  check_gathered({.m = 150, .n = 40, .k = 72, .ranks = 3, .mapped = false}, true);
  check_gathered({.m = 96, .n = 40, .k = 72, .symmetric = false, .tile_m = 64}, true);
  if (kSlow) return;
  check_gathered({.m = 40, .n = 40, .k = 72, .transpose_a = true}, false);
  check_gathered({.m = 40, .n = 40, .k = 72, .ranks = 9, .workers = 1, .mapped = false}, false);
}

// Whether, in one of some runs, work on a product began before the task ahead of it was posted.
bool overlaps(const Plan& plan) {
  std::mt19937_64 random(3);
  DeviceWorld device(plan, kernel_for(plan), {.trace = true});
  for (int tries = 0; tries < (kSlow ? 10 : 50); ++tries) {
    World world = testing_support::random_world(plan, /*runs=*/1, random);
    EXPECT_TRUE(device.run(world).ok());
    EXPECT_EQ(first_difference(plan, world), "");
    for (const RankPlan& part : plan.ranks) {
      const cuda::TaskTimes* times = device.times(part.rank);
      for (size_t i = 1; i < part.tasks.size(); ++i) {
        const bool product = part.tasks[i].op == TaskOp::kGemm && part.tasks[i].post_count > 0;
        if (product && times[i].start_ns < times[i - 1].end_ns) return true;
      }
    }
  }
  return false;
}

// That each tile's post tells of the tiles before it holds no tile up.
TEST(DeviceGemm, ATileIsBegunWhileTheOneBeforeIsStored) {
  Plan plan = plan_gemm({.m = 512, .n = 16, .k = 16, .workers = 1});
  EXPECT_TRUE(overlaps(plan));
  for (RankPlan& part : plan.ranks)
    for (Task& task : part.tasks)
      if ((task.flags & kPostsInOrder) != 0) task.flags = kAfterAll;
  EXPECT_FALSE(overlaps(plan));
}

TEST(DeviceGemm, WithoutAPlan) {
  EXPECT_EQ(run_bare(128, 256, 64, {}), "");
  EXPECT_EQ(run_bare(300, kSlow ? 80 : 520, 72, {.blocks = 3, .seed = 2}), "");
}

// Every tile once, whatever the order: what is not written stays poisoned.
TEST(DeviceGemm, WithoutAPlanInEveryOrder) {
  for (const uint32_t band_rows : {1u, 2u, 3u, 16u})
    EXPECT_EQ(run_bare(600, kSlow ? 80 : 520, 16, {.blocks = 2, .band_rows = band_rows}), "");
}

TEST(DeviceGemm, PairsWithoutAPlan) {
  EXPECT_EQ(run_bare(256, 256, 64, {.blocks = 2, .pairs = true}), "");
  EXPECT_EQ(run_bare(100, 80, 648, {.blocks = 2, .pairs = true}), "");  // The second has no rows.
  EXPECT_EQ(run_bare(700, kSlow ? 80 : 520, 72, {.blocks = 4, .pairs = true, .band_rows = 2}), "");
}

TEST(DeviceGemm, TurnedOperands) {
  for (const bool turned_b : {true, false}) {
    check({.m = 136, .n = 72, .k = 50, .transpose_a = true, .transpose_b = turned_b, .pad_a = 3},
          {false});
    check({.m = 136, .n = 72, .k = 48, .transpose_b = turned_b, .pad_a = 8}, {true, false});
  }
}

// A B that nobody has packed, by the kernel that is meant and by the one that runs alone.
void check_raw(GemmCase c, bool boxes = true) {
  c.raw_b = true;
  for (const bool turned_b : {true, false}) {
    c.transpose_b = turned_b;
    SCOPED_TRACE(describe(c));
    EXPECT_EQ(cuda::views_of(plan_gemm(c), {}).has_value(), boxes);
    check(c, {true, false});
  }
}

TEST(DeviceGemm, RawOperands) {
  check_raw({.m = 128, .n = 256, .k = 64, .ranks = 1});
  check_raw({.m = 131, .n = 264, .k = 72});
  check_raw({.m = 65, .n = 336, .k = 136, .ranks = 1, .pad_b = 8});
  check_raw({.m = 1, .n = 8, .k = 200});
  if (kSlow) return;
  check_raw({.m = 40, .n = 64, .k = 16, .dtype = DType::kF16, .out_dtype = DType::kF16});
  check_raw({.m = 131, .n = 264, .k = 72, .out_dtype = DType::kF32, .ranks = 3, .pad_c = 8});
  check_raw({.m = 300, .n = 520, .k = 328, .workers = 3});
  check_raw({.m = 96, .n = 40, .k = 8, .symmetric = false, .mapped = false});
  // A is turned, or B has rows of odd bytes: not for the copy engine.
  check_raw({.m = 136, .n = 72, .k = 48, .transpose_a = true, .pad_b = 1}, false);
  check_raw({.m = 70, .n = 33, .k = 67, .pad_b = 3}, false);
}

TEST(DeviceGemm, RawOperandsInNarrowBlocks) {
  const auto narrow = [](GemmCase c) {
    c.tile_n = 128;
    check_raw(c);
  };
  narrow({.m = 131, .n = 264, .k = 72});
  if (kSlow) return;
  narrow({.m = 65, .n = 136, .k = 328, .dtype = DType::kF16, .out_dtype = DType::kF16});
  narrow({.m = 300, .n = 520, .k = 456, .ranks = 1, .workers = 2, .tile_m = 256});
}

TEST(DeviceGemm, RawOperandsOfRowsOfPeers) {
  for (const bool turned_b : {true, false}) {
    check_gathered({.m = 150, .n = 40, .k = 72, .ranks = 3, .transpose_b = turned_b, .raw_b = true},
                   true);
    if (kSlow) continue;
    check_gathered({.m = 129,
                    .n = 280,
                    .k = 40,
                    .symmetric = false,
                    .transpose_b = turned_b,
                    .pad_a = 8,
                    .raw_b = true},
                   true);
  }
}

TEST(DeviceGemm, RawOperandsOfSinglePrecision) {
  const GemmCase c{.m = 66,
                   .n = 70,
                   .k = 33,
                   .dtype = DType::kF32,
                   .out_dtype = DType::kF32,
                   .ranks = 3,
                   .transpose_a = true};
  check_raw(c, false);
}

TEST(DeviceGemm, SinglePrecision) {
  check({.m = 130, .n = 70, .k = 33, .dtype = DType::kF32, .out_dtype = DType::kF32}, {false});
  check({.m = 66,
         .n = 70,
         .k = 33,
         .dtype = DType::kF32,
         .out_dtype = DType::kF32,
         .ranks = 3,
         .transpose_a = true,
         .transpose_b = true},
        {false});
}

}  // namespace
}  // namespace sk
