// The table of what the copy engine reads: from tasks alone, each matrix once, as far as it is safe
// to read.
#include "cuda/exec/views.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

#include "cuda/exec/image.h"
#include "tests/support/gemm_cases.h"

namespace sk::cuda {
namespace {

using testing_support::GemmCase;
using testing_support::plan_gemm;

// Whatever a task's boxes read of its own rows and columns is what its regions say.
void expect_matching(const Plan& plan, const ViewTable& table) {
  for (const RankPlan& part : plan.ranks) {
    ASSERT_EQ(table.tasks[part.rank].size(), part.tasks.size());
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      const Task& task = part.tasks[i];
      if (!is_gemm(task.op)) continue;
      const int64_t* p = part.params_of(task).data();
      const ProductViews& views = table.tasks[part.rank][i];
      const View &a = table.views[views.a], &b = table.views[views.b];
      const Region& rows = part.regions_of(task)[0];
      EXPECT_EQ(a.buffer, rows.buffer);
      EXPECT_EQ(a.offset + views.a_row * a.pitch, rows.offset);
      EXPECT_EQ(a.columns, uint64_t(p[kGemmK]));
      EXPECT_LE(views.a_row + uint64_t(p[kGemmRows]), a.rows);
      EXPECT_LE(a.offset + (a.rows - 1) * a.pitch + a.columns * 2, plan.buffers[a.buffer].bytes);
      EXPECT_EQ(b.buffer, part.regions_of(task)[1].buffer);
      EXPECT_EQ(views.b_row, uint64_t(p[kGemmCol0]));
      const bool by_rows = layout_of_b(task.op, p) == LayoutB::kRows;
      EXPECT_EQ(b.rows, uint64_t(p[by_rows ? kGemmK : kGemmN]));
      EXPECT_EQ(b.columns, uint64_t(p[by_rows ? kGemmN : kGemmK]));
      EXPECT_LE(b.offset + (b.rows - 1) * b.pitch + b.columns * 2, plan.buffers[b.buffer].bytes);
    }
  }
}

std::set<uint32_t> buffers_of(const ViewTable& table) {
  std::set<uint32_t> buffers;
  for (const View& view : table.views) buffers.insert(view.buffer);
  return buffers;
}

TEST(Views, AreOneForEachMatrix) {
  for (const bool gathers : {true, false}) {
    for (const int64_t pad : {0, 8}) {
      const Plan plan =
          plan_gemm({.m = 300, .n = 600, .k = 72, .ranks = 3, .pad_a = pad, .gathers = gathers});
      const auto table = views_of(plan, {});
      ASSERT_TRUE(table.has_value());
      EXPECT_EQ(table->views.size(), 6u) << gathers;  // A and B of each rank.
      EXPECT_EQ(buffers_of(*table).size(), 6u);
      expect_matching(plan, *table);
    }
  }
}

// What the caller has of B, for all tiles.
TEST(Views, OfARawBAreItsRows) {
  for (const bool turned : {true, false}) {
    const Plan plan = plan_gemm({.m = 300,
                                 .n = 600,
                                 .k = 72,
                                 .ranks = 3,
                                 .transpose_b = turned,
                                 .pad_b = 16,
                                 .raw_b = true});
    const auto table = views_of(plan, {.rows_b = 64});
    ASSERT_TRUE(table.has_value());
    EXPECT_EQ(table->views.size(), 6u);
    expect_matching(plan, *table);
    for (const View& view : table->views) {
      if (plan.buffers[view.buffer].operand != 2) continue;
      EXPECT_EQ(plan.buffers[view.buffer].kind, BufferKind::kInput);
      EXPECT_EQ(view.pitch, (turned ? 88u : 616u) * 2);
      EXPECT_EQ(view.box_rows, 64u);
    }
  }
}

// A peer's copy is written while others of its rows are read: no box may reach past a tile.
TEST(Views, EndWithRowsBesideWhichOthersWrite) {
  for (const bool mapped : {true, false}) {
    const Plan plan = plan_gemm({.m = 300,
                                 .n = 40,
                                 .k = 72,
                                 .ranks = 3,
                                 .symmetric = false,
                                 .mapped = mapped,
                                 .tile_m = 96,
                                 .gathers = true});
    const auto table = views_of(plan, {});
    ASSERT_TRUE(table.has_value());
    expect_matching(plan, *table);
    uint32_t looked = 0;
    for (const RankPlan& part : plan.ranks) {
      for (size_t i = 0; i < part.tasks.size(); ++i) {
        if (part.tasks[i].op != TaskOp::kGemm) continue;
        const ProductViews& views = table->tasks[part.rank][i];
        const View& a = table->views[views.a];
        if (plan.buffers[a.buffer].kind == BufferKind::kInput) continue;
        ++looked;
        EXPECT_EQ(a.rows, views.a_row + part.regions_of(part.tasks[i])[0].rows);
      }
    }
    EXPECT_GT(looked, 0u);
  }
}

// Tiles of whole blocks, and the last one, which is nobody else's: one view.
TEST(Views, OfCopiesInWholeBlocksAreOne) {
  const Plan plan =
      plan_gemm({.m = 300, .n = 40, .k = 72, .ranks = 3, .symmetric = false, .gathers = true});
  const auto table = views_of(plan, {});
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->views.size(), 9u);  // A, its copy and B of each rank.
  // Of a pair's blocks the second has no rows of such a tile, and reads what lies behind it.
  const auto pairs = views_of(plan, {.block_rows = 256, .rows_b = 128});
  ASSERT_TRUE(pairs.has_value());
  EXPECT_GT(pairs->views.size(), table->views.size());
  expect_matching(plan, *pairs);
}

// The last tile has one row, whose pitch in the plan is its own.
TEST(Views, OfASingleRowJoinTheOthers) {
  const Plan plan = plan_gemm({.m = 129, .n = 40, .k = 67, .pad_a = 5});
  const auto table = views_of(plan, {});
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->views.size(), 4u);
  Plan other = plan;
  for (RankPlan& part : other.ranks) {
    for (const Task& task : part.tasks) {
      Region& a = part.regions[task.first_region];
      if (task.op == TaskOp::kGemm && a.rows == 1) a.pitch = a.row_bytes;  // 134 bytes.
    }
  }
  const auto alone = views_of(other, {});
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->views.size(), 6u);
  expect_matching(other, *alone);
}

TEST(Views, AreNotOfWhatTheEngineCannotRead) {
  const std::map<std::string, GemmCase> cases = {
      {"f32", {.m = 8, .n = 8, .k = 8, .dtype = DType::kF32, .out_dtype = DType::kF32}},
      {"turned", {.m = 8, .n = 8, .k = 8, .transpose_a = true}},
      {"no k", {.m = 8, .n = 8, .k = 0}},
      {"rows of B apart by 18 bytes", {.m = 8, .n = 8, .k = 8, .pad_b = 1, .raw_b = true}},
      {"rows of A apart by 18 bytes", {.m = 8, .n = 8, .k = 8, .pad_a = 1}}};
  for (const auto& [what, c] : cases) EXPECT_FALSE(views_of(plan_gemm(c), {}).has_value()) << what;
  EXPECT_TRUE(views_of(plan_gemm({.m = 8, .n = 8, .k = 8}), {}).has_value());
}

TEST(Views, AreNoMoreThanALaunchCarries) {
  GemmCase c{.m = 8, .n = 8, .k = 8, .workers = 1, .mapped = false, .gathers = true};
  c.ranks = 7;  // Six inboxes, A and B.
  const auto most = views_of(plan_gemm(c), {});
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->views.size(), 56u);
  c.ranks = 8;  // 72.
  EXPECT_FALSE(views_of(plan_gemm(c), {}).has_value());
}

TEST(Views, AreNoneOfASplitByTheRunsParity) {
  Plan plan = plan_gemm({.m = 8, .n = 8, .k = 8, .symmetric = false, .gathers = true});
  ASSERT_TRUE(views_of(plan, {}).has_value());
  for (Buffer& buffer : plan.buffers)
    if (buffer.kind == BufferKind::kWorkspace) buffer.generations = 2;
  EXPECT_FALSE(views_of(plan, {}).has_value());
}

TEST(Views, LieWhereOperandsDo) {
  const Plan plan = plan_gemm({.m = 8, .n = 8, .k = 8});
  const auto table = views_of(plan, {});
  ASSERT_TRUE(table.has_value());
  const uint64_t ranks[] = {1 << 20, 2 << 20};
  std::vector<RankOperands> operands(2, RankOperands{});
  const auto at = [](uint64_t address) { return std::bit_cast<void*>(address); };
  operands[0][0] = at(0x1000);
  operands[1][0] = at(0x2010);
  const auto placed = place_views(plan, *table, ranks, operands);
  ASSERT_TRUE(placed.has_value());
  std::multiset<uint64_t> addresses;
  for (const BoxView& view : *placed) addresses.insert(view.address);
  EXPECT_TRUE(addresses.contains(0x1000) && addresses.contains(0x2010));
  for (uint32_t rank = 0; rank < 2; ++rank) {  // Of packed B.
    const auto first = addresses.lower_bound(ranks[rank] + rank_memory(plan, rank).workspace);
    ASSERT_NE(first, addresses.end());
    EXPECT_LT(*first, ranks[rank] + rank_memory(plan, rank).signals);
  }
  operands[1][0] = at(0x2008);
  EXPECT_FALSE(place_views(plan, *table, ranks, operands).has_value());
}

}  // namespace
}  // namespace sk::cuda
