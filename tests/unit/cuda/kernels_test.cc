// Which kernel runs a plan follows from its tiles.
#include "cuda/exec/kernels.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"

namespace sk::cuda {
namespace {

using namespace testing_support;

// By its name; "": none does.
std::string kernel_of(const Plan& plan, Way way) {
  const std::optional<KernelId> id = find_kernel(needs_of(plan), way);
  return id ? traits_of(*id).name : "";
}
std::string box_kernel_of(const Plan& plan) {
  return kernel_of(plan, way_of_boxes(needs_of(plan)));
}

TEST(Kernels, AreTheSmallestThatDoAllTiles) {
  EXPECT_EQ(kernel_of(direct_allreduce(2, 10), Way::kAlone), "sk_run_moves");
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Plan plan = plan_gemm({.m = 256, .n = 300, .k = 64, .dtype = dtype, .out_dtype = dtype});
    EXPECT_EQ(kernel_of(plan, Way::kAlone), "sk_run_gemms");
  }
}

TEST(Kernels, OfBoxesAreOfATypeAndAWidth) {
  const GemmCase wide{.m = 256, .n = 300, .k = 64};
  GemmCase narrow = wide, f16 = wide, single = wide;
  narrow.tile_n = 128;
  f16.dtype = f16.out_dtype = DType::kF16;
  single.dtype = single.out_dtype = DType::kF32;
  EXPECT_EQ(box_kernel_of(plan_gemm(wide)), "sk_run_boxes_bf16");
  EXPECT_EQ(box_kernel_of(plan_gemm(narrow)), "sk_run_narrow_bf16");
  EXPECT_EQ(box_kernel_of(plan_gemm(f16)), "sk_run_boxes_f16");
  EXPECT_EQ(kernel_of(plan_gemm(f16), Way::kPairs), "sk_run_pairs_f16");
  EXPECT_EQ(box_kernel_of(plan_gemm(single)), "");
  EXPECT_EQ(kernel_of(plan_gemm(single), Way::kPairs), "");
}

TEST(Kernels, OfBoxesAreOfALayoutOfB) {
  GemmCase c{.m = 256, .n = 300, .k = 64, .transpose_b = true, .raw_b = true};
  EXPECT_EQ(box_kernel_of(plan_gemm(c)), "sk_run_boxes_bf16");
  c.transpose_b = false;
  EXPECT_EQ(box_kernel_of(plan_gemm(c)), "sk_run_boxes_kn_bf16");
  EXPECT_EQ(kernel_of(plan_gemm(c), Way::kAlone), "sk_run_gemms");
  EXPECT_EQ(kernel_of(plan_gemm(c), Way::kPairs), "sk_run_pairs_kn_bf16");
  c.tile_n = 128;
  c.dtype = c.out_dtype = DType::kF16;
  EXPECT_EQ(box_kernel_of(plan_gemm(c)), "sk_run_narrow_kn_f16");
  // Of both: no kernel of boxes.
  Plan both = plan_gemm(c);
  for (Task& task : both.ranks[1].tasks) {
    if (!is_gemm(task.op)) continue;
    both.ranks[1].params[task.first_param + kGemmRawTransposeB] = 1;
    break;
  }
  EXPECT_EQ(box_kernel_of(both), "");
  EXPECT_EQ(kernel_of(both, Way::kAlone), "sk_run_gemms");
}

// A plan of several products, whatever operation it is of: one of another type is enough.
TEST(Kernels, FollowFromEveryTask) {
  Plan plan = plan_gemm({.m = 256, .n = 300, .k = 64});
  RankPlan& part = plan.ranks[1];
  for (const Task& task : part.tasks)
    if (task.op == TaskOp::kGemm) part.params[task.first_param + kGemmDtype] = int64_t(DType::kF16);
  EXPECT_EQ(box_kernel_of(plan), "");
  EXPECT_EQ(kernel_of(plan, Way::kAlone), "sk_run_gemms");
  part.tasks.back().op = TaskOp::kRmsnorm;
  EXPECT_EQ(kernel_of(plan, Way::kAlone), "");
  part.tasks.back().op = TaskOp::kUserFirst;
  EXPECT_EQ(kernel_of(plan, Way::kAlone), "");
}

TEST(Kernels, ReadBoxesAsTheyMultiplyThem) {
  const auto expect = [](KernelId id, uint32_t block_rows, uint32_t rows_b) {
    const BoxShape shape = traits_of(id).shape();
    EXPECT_EQ(shape.block_rows, block_rows) << traits_of(id).name;
    EXPECT_EQ(shape.rows_b, rows_b) << traits_of(id).name;
  };
  expect(kRunBoxesF16, 128, 256);
  expect(kRunNarrowBf16, 128, 128);
  expect(kRunPairsBf16, 256, 128);
  expect(kRunBoxesKnBf16, 128, 64);
  expect(kRunNarrowKnF16, 128, 64);
  expect(kRunPairsKnF16, 256, 64);
}

}  // namespace
}  // namespace sk::cuda
