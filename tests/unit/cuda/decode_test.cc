// Tasks as kernels read them: each field is what the plan says, and what does not fit is said.
#include "cuda/exec/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/exec/views.h"
#include "cuda/kernel/image.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"

namespace sk::cuda {
namespace {

using namespace testing_support;
using testing::HasSubstr;

// Where the part's n-th task of a kind is.
size_t task_of(const RankPlan& part, TaskOp op, size_t n = 0) {
  for (size_t i = 0; i < part.tasks.size(); ++i)
    if (part.tasks[i].op == op && n-- == 0) return i;
  ADD_FAILURE() << "no such task";
  return 0;
}

TEST(Decode, AProductIsOfItsTypeOrSingle) {
  Plan plan = plan_gemm({.m = 128, .n = 64, .k = 16, .ranks = 1});
  RankPlan& part = plan.ranks[0];
  const Task& task = part.tasks[task_of(part, TaskOp::kGemm)];
  part.params[task.first_param + kGemmOutDtype] = int64_t(DType::kF32);
  EXPECT_TRUE(check_part(plan, part).ok());
  part.params[task.first_param + kGemmOutDtype] = int64_t(DType::kF16);
  EXPECT_EQ(check_part(plan, part).message(),
            "a product of bf16 as f16 on a GPU; as bf16 or f32 it may be");
}

TEST(Decode, Products) {
  const Plan plan = plan_gemm({.m = 300, .n = 600, .k = 72, .ranks = 3, .pad_a = 8, .pad_c = 16});
  const auto views = views_of(plan, {});
  ASSERT_TRUE(views.has_value());
  uint32_t seen[3] = {};
  for (const RankPlan& part : plan.ranks) {
    auto records = decode(plan, part, &views->tasks[part.rank]);
    ASSERT_TRUE(records.ok()) << records.status().message();
    ASSERT_EQ(records->size(), part.tasks.size());
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      if (part.tasks[i].op != TaskOp::kGemm) continue;
      const GemmRecord& record = (*records)[i].gemm;
      const int64_t* p = part.params_of(part.tasks[i]).data();
      const std::span<const Region> regions = part.regions_of(part.tasks[i]);
      ++seen[record.epilogue];
      EXPECT_EQ(record.a_pitch, 80u * 2);
      EXPECT_EQ(record.b_pitch, 72u * 2);
      EXPECT_EQ(record.b_offset, uint64_t(p[kGemmCol0]) * 144);
      EXPECT_EQ(record.rows, uint32_t(p[kGemmRows]));
      EXPECT_EQ(record.cols, uint32_t(p[kGemmCols]));
      EXPECT_EQ(record.k, 72u);
      EXPECT_EQ(record.self, uint32_t(p[kGemmSelf]));
      EXPECT_EQ(DType(record.dtype), DType::kBF16);
      EXPECT_EQ(record.transpose_a, 0);
      EXPECT_EQ(record.layout_b, LayoutB::kColumns);
      EXPECT_EQ(record.views.a_row, views->tasks[part.rank][i].a_row);
      EXPECT_EQ(record.views.b_row, uint32_t(p[kGemmCol0]));
      const bool is_partial = record.epilogue == kGemmPartial;
      EXPECT_EQ(record.partials, is_partial ? 1 : 3);
      EXPECT_EQ(record.copies, is_partial ? 0 : 3);
      EXPECT_EQ(record.c_pitch, is_partial ? 0 : regions.back().pitch);
    }
  }
  EXPECT_GT(seen[kGemmPartial], 0u);
  EXPECT_GT(seen[kGemmReduce], 0u);
}

TEST(Decode, ProductsOfARawB) {
  for (const bool turned : {true, false}) {
    const Plan plan = plan_gemm({.m = 128,
                                 .n = 600,
                                 .k = 72,
                                 .ranks = 1,
                                 .transpose_b = turned,
                                 .pad_b = 16,
                                 .raw_b = true});
    const RankPlan& part = plan.ranks[0];
    auto records = decode(plan, part, nullptr);
    ASSERT_TRUE(records.ok()) << records.status().message();
    uint64_t columns = 0;
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      ASSERT_NE(part.tasks[i].op, TaskOp::kPackB);
      if (!is_gemm(part.tasks[i].op)) continue;
      const GemmRecord& record = (*records)[i].gemm;
      EXPECT_EQ(record.layout_b, turned ? LayoutB::kColumns : LayoutB::kRows);
      EXPECT_EQ(record.b_pitch, (turned ? 88u : 616u) * 2);
      const int64_t* p = part.params_of(part.tasks[i]).data();
      EXPECT_EQ(record.b_offset, uint64_t(p[kGemmCol0]) * (turned ? record.b_pitch : 2));
      columns += record.cols;
    }
    EXPECT_EQ(columns, 600u);
  }
}

TEST(Decode, PackedColumns) {
  for (const bool turned : {true, false}) {
    const Plan plan = plan_gemm({.m = 8, .n = 600, .k = 72, .ranks = 1, .transpose_b = turned});
    const RankPlan& part = plan.ranks[0];
    auto records = decode(plan, part, nullptr);
    ASSERT_TRUE(records.ok()) << records.status().message();
    uint64_t columns = 0;
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      if (part.tasks[i].op != TaskOp::kPackB) continue;
      const PackRecord& record = (*records)[i].pack;
      EXPECT_EQ(record.from_offset, columns * (turned ? 72 * 2 : 2));
      EXPECT_EQ(record.from_pitch, (turned ? 72u : 600u) * 2);
      EXPECT_EQ(record.pitch, 144u);
      EXPECT_EQ(record.k, 72u);
      EXPECT_EQ(record.element_bytes, 2u);
      EXPECT_EQ(record.transposed, turned ? 1u : 0u);
      columns += record.columns;
    }
    EXPECT_EQ(columns, 600u);
  }
}

TEST(Decode, CopiesAndReductions) {
  const Plan plan = staged_allreduce(3, 17);
  const RankPlan& part = plan.ranks[1];
  auto records = decode(plan, part, nullptr);
  ASSERT_TRUE(records.ok()) << records.status().message();
  const size_t copied = task_of(part, TaskOp::kCopy), reduced = task_of(part, TaskOp::kReduce);
  const std::span<const Region> from = part.regions_of(part.tasks[copied]);
  const CopyRecord& copy = (*records)[copied].copy;
  EXPECT_EQ(copy.row_bytes, from[0].row_bytes);
  EXPECT_EQ(copy.rows, from[0].rows);
  EXPECT_EQ(copy.to_count, from[1].buffer_count);
  const std::span<const Region> all = part.regions_of(part.tasks[reduced]);
  const ReduceRecord& reduce = (*records)[reduced].reduce;
  uint32_t inputs = 0;
  for (const Region& region : all.first(all.size() - 1)) inputs += region.buffer_count;
  EXPECT_EQ(reduce.inputs, all.size() - 1);
  EXPECT_EQ(reduce.all_in_count, inputs);
  EXPECT_EQ(reduce.out_count, all.back().buffer_count);
  EXPECT_EQ(reduce.columns, all.back().row_bytes / 4);
  EXPECT_EQ(RedOp(reduce.op), RedOp::kSum);
}

// Which of its hints a GPU heeds: of stores past the caches.
TEST(Decode, HintsOfCopiesAndReductions) {
  Plan plan = staged_allreduce(3, 17);
  RankPlan& part = plan.ranks[1];
  const size_t copied = task_of(part, TaskOp::kCopy), reduced = task_of(part, TaskOp::kReduce);
  for (const int64_t hint : {kStoreDefault, kStoreNonTemporal, kTakeInputs, kHandOver}) {
    part.params[part.tasks[copied].first_param + kCopyHint] = hint;
    part.params[part.tasks[reduced].first_param + kReduceHint] = hint;
    auto records = decode(plan, part, nullptr);
    ASSERT_TRUE(records.ok()) << records.status().message();
    EXPECT_EQ((*records)[copied].copy.past_caches != 0, hint == kStoreNonTemporal);
    EXPECT_EQ((*records)[reduced].reduce.past_caches != 0, hint == kStoreNonTemporal);
  }
}

// Numbers that no kernel could count to are a sentence, not other numbers.
TEST(Decode, RefusesWhatDoesNotFit) {
  const Plan sound = plan_gemm({.m = 8, .n = 16, .k = 8});
  const std::pair<GemmParam, const char*> cases[] = {
      {kGemmK, "a gemm of the plan has 4294967304 elements in a sum, on a GPU at most 2147483647"},
      {kGemmN, "4294967312 columns in all"},
      {kGemmRows, "4294967304 rows"},
      {kGemmCols, "4294967312 columns"}};
  for (const auto& [param, sentence] : cases) {
    Plan plan = sound;
    RankPlan& part = plan.ranks[0];
    part.params[part.tasks[task_of(part, TaskOp::kGemm)].first_param + param] += int64_t(1) << 32;
    const Status status = check_part(plan, part);
    EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(status.message(), HasSubstr(sentence));
  }
  for (const TaskOp op : {TaskOp::kCopy, TaskOp::kReduce}) {
    Plan moves = staged_allreduce(3, 17);
    RankPlan& part = moves.ranks[0];
    part.regions[part.tasks[task_of(part, op)].first_region].rows = UINT32_MAX;
    EXPECT_THAT(check_part(moves, part).message(),
                HasSubstr("has 4294967295 rows, on a GPU at most 2147483647"));
  }
  Plan plan = sound;
  RankPlan& part = plan.ranks[0];
  const Task& task = part.tasks[task_of(part, TaskOp::kGemm)];
  part.regions[task.first_region + 2].buffer_count = kPointersMax;
  EXPECT_THAT(check_part(plan, part).message(), HasSubstr("buffers, on a GPU at most 64 at once"));
}

}  // namespace
}  // namespace sk::cuda
