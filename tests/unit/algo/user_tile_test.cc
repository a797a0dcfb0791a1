// Plans of operations that users made of tiles: valid for all shapes and workers, what the function
// computes in the reference's eyes, and refused by the same judge once a planner would have gone
// wrong or a tile would do something else than its operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/op/judge.h"
#include "lib/op/values.h"
#include "lib/plan/free_rows.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "lib/tile/user_table.h"
#include "tests/support/own_texts.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

int32_t saxpy(void* const* data, const sk_tile_view* views, const sk_tile_value* values, void*) {
  for (int64_t i = 0; i < views[2].rows; ++i) {
    for (int64_t j = 0; j < views[2].cols; ++j) {
      const auto at = [&](int region) -> float& {
        return static_cast<float*>(data[region])[i * views[region].stride + j];
      };
      at(2) = float(values[0].f) * at(0) + at(1);
    }
  }
  return 1;
}

Target target_of(uint32_t workers) {
  Target target;
  target.world_size = 1;
  target.workers = target.cores = workers;
  return target;
}

// In the reference's eyes, of numbers that alpha does not round.
void expect_saxpy(const Plan& plan, std::mt19937_64& random) {
  const OpDesc& op = plan.op;
  const Schema& schema = op.schema();
  const auto m = size_t(op[schema.field("m")]), n = size_t(op[schema.field("n")]);
  const auto ld = size_t(op[schema.stride_field(0)]);
  std::vector<float> x((m - 1) * ld + n), y(x.size());
  for (float& each : x) each = float(random() % 100);
  for (float& each : y) each = float(random() % 100);
  World world;
  world.inputs.assign(1, std::vector<OperandBytes>(1));
  const auto bytes = [](const std::vector<float>& from) {
    const auto* begin = reinterpret_cast<const std::byte*>(from.data());
    return std::vector<std::byte>(begin, begin + from.size() * sizeof(float));
  };
  world.inputs[0][0][0] = bytes(x);
  world.inputs[0][0][1] = bytes(y);
  const Status ran = run_reference(plan, world, random());
  ASSERT_TRUE(ran.ok()) << ran.message();
  const std::vector<std::byte>& raw = world.outputs[0][0][op.aliased(2) ? 1 : 2];
  ASSERT_EQ(raw.size(), x.size() * sizeof(float));
  const auto* z = reinterpret_cast<const float*>(raw.data());
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      ASSERT_EQ(z[i * ld + j], 2.5f * x[i * ld + j] + y[i * ld + j]) << i << ", " << j;
    }
  }
}

class UserPlans : public testing::Test {
 protected:
  const UserTile& add(const TileText& text, sk_tile_fn function = saxpy) {
    const Result<OpKind> added = set_.add(text, {function, nullptr});
    EXPECT_TRUE(added.ok()) << added.status().message();
    return *set_.use(int32_t(added.value())).value();
  }
  static OpDesc op_of(const UserTile& tile, const std::vector<int64_t>& extents,
                      int64_t apart = 0) {
    OpDesc op(tile.schema());
    for (size_t i = 0; i < extents.size(); ++i)
      op.set(tile.schema().dimension_field(i), extents[i]);
    for (uint32_t i = 0; i < tile.schema().operands.size(); ++i) {
      if (const Field stride = tile.schema().stride_field(i)) op.set(stride, extents[1] + apart);
    }
    EXPECT_EQ(mistake_in(op, 1), "");
    return op;
  }
  TileSet set_;
};

TEST_F(UserPlans, AreValidAndRightInTheReferencesEyes) {
  std::mt19937_64 random(std::random_device{}());
  for (const TileOver over : {TileOver::kRows, TileOver::kBlocks, TileOver::kAll}) {
    TileText text = saxpy_text(over);
    text.name += tile_over_name(over);
    const UserTile& tile = add(text);
    for (int round = 0; round < 40; ++round) {
      const int64_t m = 1 + int64_t(random() % (round % 8 == 0 ? 700 : 20));
      const int64_t n = 1 + int64_t(random() % (round % 8 == 1 ? 900 : 20));
      OpDesc op = op_of(tile, {m, n}, int64_t(random() % 3));
      op.set(tile.schema().field("alpha"), bits_of(2.5));
      op.set(OpDesc::aliased_field(2), round % 2 == 0);
      const Plan plan = make_plan(op, target_of(1 + uint32_t(random() % 5))).value();
      const Status valid = validate(plan);
      ASSERT_TRUE(valid.ok()) << valid.message() << "\n" << dump(plan);
      ASSERT_NO_FATAL_FAILURE(expect_saxpy(plan, random));
    }
  }
}

TEST_F(UserPlans, OfAnyShapeAreValid) {
  std::mt19937_64 random(std::random_device{}());
  TileText sums = normed_text();
  sums.name = "column_sums";
  sums.regions = {read_region("x", "f32", "m, n"), written_region("s", "x", "n")};
  sums.effect = "s[j] = sum(i uncut) x[i, j]";
  TileText blocks = sums;
  blocks.name = "block_sums";
  blocks.regions[1].shape = "cdiv(m, 16), n";
  blocks.effect = "s[i // 16, j] = sum(i uncut) square(x[i, j])";
  TileText both = blocks;
  both.name = "block_sums_blocks";
  both.over = TileOver::kBlocks;
  TileText opaque = normed_text();
  opaque.name = "opaque_one";
  opaque.effect.clear();
  opaque.over = TileOver::kAll;
  TileText turned = saxpy_text(TileOver::kBlocks);
  turned.name = "turned";
  turned.numbers.clear();
  turned.regions = {read_region("x", "f32", "m, n"), written_region("z", "x", "n, m")};
  turned.effect = "z[j, i] = turned(x[i, j])";
  TileText vectors = turned;
  vectors.name = "vectors";
  vectors.over = TileOver::kRows;
  vectors.regions = {read_region("x", "f32", "m"), read_region("n_of_them", "x", "n"),
                     written_region("z", "x", "m")};
  vectors.effect = "z[i] = convolved[j](x[i], n_of_them[j])";
  TileText copied = turned;
  copied.name = "copied";
  copied.regions[1].shape = "m, n";
  copied.effect = "z[i, j] = x[i, j]";
  for (const TileText& text :
       {normed_text(), sums, blocks, both, opaque, turned, vectors, copied}) {
    const UserTile& tile = add(text);
    for (int round = 0; round < 40; ++round) {
      const int64_t m = int64_t(random() % (round % 4 == 0 ? 3000 : 40));
      const int64_t n = int64_t(random() % (round % 4 == 1 ? 3000 : 40));
      OpDesc op(tile.schema());
      op.set(tile.schema().dimension_field(0), m);
      op.set(tile.schema().dimension_field(1), n);
      for (uint32_t i = 0; i < tile.schema().operands.size(); ++i) {
        const Field stride = tile.schema().stride_field(i);
        if (stride) op.set(stride, std::max(m, n) + int64_t(random() % 3));
      }
      const uint32_t workers = 1 + uint32_t(random() % 5);
      const Plan plan = make_plan(op, target_of(workers)).value();
      const Status valid = validate(plan);
      ASSERT_TRUE(valid.ok()) << tile.text().name << " " << m << " x " << n << ": "
                              << valid.message() << "\n"
                              << dump(plan).substr(0, 4000);
      EXPECT_LE(plan.ranks[0].queues.size(), workers);
    }
  }
}

TileText block_sums_text() {
  TileText text = normed_text();
  text.name = "block_sums";
  text.regions = {read_region("x", "f32", "m, n"), written_region("s", "x", "cdiv(m, 16), n")};
  text.effect = "s[i // 16, j] = sum(i uncut) square(x[i, j])";
  return text;
}

TEST_F(UserPlans, HaveFreeRowsWhereNothingElseDependsOnThem) {
  const TileText rows = saxpy_text(), blocks = saxpy_text(TileOver::kBlocks),
                 all = saxpy_text(TileOver::kAll), sums = normed_text(),
                 block_sums = block_sums_text();
  const struct {
    const char* name;
    TileText text;
    std::function<void(TileText&)> change;
    const char* free;
  } kCases[] = {
      {"rows", rows, [](TileText&) {}, "m"},
      {"blocks", blocks, [](TileText&) {}, "m"},
      {"all", all, [](TileText&) {}, ""},
      {"two_results", sums, [](TileText&) {}, "m"},
      {"blocks_of_rows", block_sums, [](TileText&) {}, "m"},
      {"one_row_is_no_promise", rows, [](TileText& t) { t.tile_rows = 1; }, "m"},
      {"rows_were_promised", rows, [](TileText& t) { t.tile_rows = 2; }, ""},
      {"rows_are_computed", rows,
       [](TileText& t) {
         for (auto& each : t.regions) each.shape = "2 * m, n";
         t.regions.insert(t.regions.begin(), read_region("v", "f32", "m"));
         t.effect = "z[i, j] = f[k](x[i, j], y[i, j], v[k])";
         t.regions[1].types = "f32";
       },
       ""},
      {"all_rows_of_another", rows,
       [](TileText& t) {
         t.regions.push_back(read_region("v", "x", "m"));
         t.effect = "z[i, j] = f[k](x[i, j], y[i, j], v[k])";
       },
       ""},
      {"columns", sums,
       [](TileText& t) {
         t.regions = {read_region("x", "f32", "m, n"), written_region("s", "x", "n")};
         t.effect = "s[j] = sum(i uncut) x[i, j]";
       },
       ""},
      {"a_bound_knows_them", sums,
       [](TileText& t) {
         t.numbers = {
             {.kind = AttributeKind::kInt, .name = "k", .least = "0", .most = "m", .doc = ""}};
       },
       ""},
  };
  for (const auto& each : kCases) {
    TileText text = each.text;
    text.name = std::string("t_") + each.name;
    each.change(text);
    EXPECT_STREQ(add(text).schema().free, each.free) << each.name;
  }
}

TEST_F(UserPlans, OfEachNumberOfRowsAreValidAndRight) {
  std::mt19937_64 random(std::random_device{}());
  for (const TileText& text :
       {saxpy_text(), saxpy_text(TileOver::kBlocks), normed_text(), block_sums_text()}) {
    TileText named = text;
    named.name += tile_over_name(text.over);
    const UserTile& tile = add(named);
    const bool is_saxpy = text.name == "saxpy";
    for (int round = 0; round < 12; ++round) {
      const int64_t m = 1 + int64_t(random() % 700), n = 1 + int64_t(random() % 300);
      OpDesc op = op_of(tile, {m, n}, int64_t(random() % 3));
      if (is_saxpy) {
        op.set(tile.schema().field("alpha"), bits_of(2.5));
        op.set(OpDesc::aliased_field(2), round % 2 == 0);
      }
      uint64_t extent = 0;
      const Plan plan =
          make_plan(with_room(op, &extent), target_of(1 + uint32_t(random() % 4))).value();
      ASSERT_EQ(extent, uint64_t(m));
      ASSERT_GE(free_extent(plan), extent);
      const Status valid = validate(plan);
      ASSERT_TRUE(valid.ok()) << valid.message();
      for (const uint64_t rows : {uint64_t(0), uint64_t(1), extent, free_extent(plan)}) {
        const Plan exact = in_effect(plan, rows);
        const Status valid_then = validate(exact);
        ASSERT_TRUE(valid_then.ok()) << rows << ": " << valid_then.message();
        if (!is_saxpy || rows == 0) continue;
        ASSERT_NO_FATAL_FAILURE(expect_saxpy(exact, random));
      }
      Plan uncut = plan;
      for (Task& task : uncut.ranks[0].tasks) task.flags = 0;
      EXPECT_THAT(validate(uncut).message(), HasSubstr("with 0 of its free dimension in effect"));
    }
  }
}

TEST_F(UserPlans, OfManyNumbersOfRowsAreFew) {
  // The first operand has no rows, so that it says nothing of how large a call is.
  TileText text = saxpy_text();
  text.name = "weighted";
  text.numbers.clear();
  text.regions = {read_region("w", "f32", "n"), read_region("x", "w", "m, n"),
                  written_region("z", "w", "m, n")};
  text.effect = "z[i, j] = weighted(w[j], x[i, j])";
  const UserTile& tile = add(text);
  const auto plans_up_to = [&](int64_t rows, int64_t columns) {
    OpDesc op(tile.schema());
    op.set(tile.schema().field("n"), columns);
    for (const uint32_t i : {1u, 2u}) op.set(tile.schema().stride_field(i), columns);
    std::set<uint64_t> made;
    for (int64_t m = 1; m <= rows; ++m) {
      op.set(tile.schema().field("m"), m);
      uint64_t extent = 0;
      made.insert(with_room(op, &extent).hash());
    }
    return made.size();
  };
  EXPECT_LE(plans_up_to(1'200, 8), 40u);
  EXPECT_LE(plans_up_to(1'200, 1'024), 110u);     // What workers share has less room.
  EXPECT_GE(plans_up_to(1'200, 40'000), 1'000u);  // Above 16 MB each has its own.
}

TEST_F(UserPlans, UseAllWorkersUnlessOneIsAskedFor) {
  const UserTile& tile = add(saxpy_text());
  const OpDesc op = op_of(tile, {600, 800});
  EXPECT_EQ(make_plan(op, target_of(4)).value().ranks[0].queues.size(), 4u);
  EXPECT_EQ(make_plan(op_of(tile, {3, 8}), target_of(4)).value().ranks[0].queues.size(), 1u);
  TileText serial = saxpy_text();
  serial.name = "serial";
  serial.serial = true;
  EXPECT_EQ(make_plan(op_of(add(serial), {600, 800}), target_of(4)).value().ranks[0].queues.size(),
            1u);
  TileText tall = saxpy_text();
  tall.name = "tall";
  tall.tile_rows = 150;
  const Plan plan = make_plan(op_of(add(tall), {600, 800}), target_of(4)).value();
  EXPECT_EQ(plan.ranks[0].tasks.size(), 4u);
}

// The parameters of a task by their names.
int64_t& param(Plan& plan, const UserTile& tile, size_t task, std::string_view name) {
  RankPlan& part = plan.ranks[0];
  for (size_t i = 0; i < tile.signature.parameters.size(); ++i) {
    if (tile.signature.parameters[i].name == name)
      return part.params[part.tasks[task].first_param + i];
  }
  ADD_FAILURE() << "no parameter " << name;
  return part.params[0];
}
Region& region(Plan& plan, size_t task, size_t number) {
  return plan.ranks[0].regions[plan.ranks[0].tasks[task].first_region + number];
}

TEST_F(UserPlans, PlantedMistakesAreRefused) {
  const UserTile& tile = add(saxpy_text());
  TileText other = saxpy_text();
  other.name = "other";
  other.effect = "z[i, j] = other(x[i, j], y[i, j])";
  const UserTile& stranger = add(other);
  OpDesc op = op_of(tile, {400, 900});
  op.set(tile.schema().field("alpha"), bits_of(2.5));
  const Plan good = make_plan(op, target_of(3)).value();
  ASSERT_TRUE(validate(good).ok());
  const struct {
    std::function<void(Plan&)> plant;
    const char* sentence;
  } kMistakes[] = {
      {[&](Plan& p) { param(p, tile, 2, "alpha") = bits_of(2.0); }, "the alpha of saxpy is"},
      {[&](Plan& p) { param(p, tile, 2, "i.first") += 1; }, "x is not rows"},
      {[&](Plan& p) { param(p, tile, 2, "i.count") -= 1; }, "x is not rows"},
      {[&](Plan& p) { param(p, tile, 2, "i.whole") += 1; }, "the operation over 400"},
      {[&](Plan& p) { param(p, tile, 2, "j.whole") -= 1; }, "the operation over 900"},
      {[&](Plan& p) { param(p, tile, 2, "x.type") = SK_I32; }, "it reads f32 as i32"},
      {[&](Plan& p) { param(p, tile, 2, "z.type") = SK_F64; }, "not to be kept as f64"},
      {[&](Plan& p) { region(p, 2, 0).offset += 3600; }, "x is not rows"},
      {[&](Plan& p) { std::swap(region(p, 2, 0).buffer, region(p, 2, 1).buffer); }, "saxpy"},
      {[&](Plan& p) { region(p, 2, 2).offset -= 3600; }, "has written them before"},
      {[&](Plan& p) { p.ranks[0].tasks[2].op = TaskOp::kNop; }, "nop"},
      {[&](Plan& p) { region(p, 2, 2).access = kRead; }, "region 2"},
      {[&](Plan& p) { p.ranks[0].tasks[2].op = stranger.id; }, "of its own operation alone"},
      {[&](Plan& p) { p.ranks[0].tasks[2].op = TaskOp(int(TaskOp::kUserFirst) + 8000); },
       "there is no operation"},
  };
  for (const auto& mistake : kMistakes) {
    Plan bad = good;
    mistake.plant(bad);
    const Status status = validate(bad);
    EXPECT_FALSE(status.ok()) << mistake.sentence;
    const std::string wanted = mistake.sentence;
    bool found = false;
    for (size_t at = 0; at <= wanted.size();) {
      const size_t end = std::min(wanted.find('|', at), wanted.size());
      found |= status.message().find(wanted.substr(at, end - at)) != std::string::npos;
      at = end + 1;
    }
    EXPECT_TRUE(found) << wanted << " is not in: " << status.message();
  }
}

// A row function may not get a part of its rows, nor a sum a part of what it sums.
TEST_F(UserPlans, WhatIsInsideIsNotCut) {
  TileText text = normed_text();
  const UserTile& tile = add(text);
  const OpDesc op = op_of(tile, {50, 60});
  Plan plan = make_plan(op, target_of(1)).value();
  ASSERT_TRUE(validate(plan).ok());
  // As if half of the columns were all.
  for (size_t i = 0; i < plan.ranks[0].tasks.size(); ++i) param(plan, tile, i, "j.whole") = 30;
  EXPECT_THAT(validate(plan).message(), HasSubstr("it goes over 30 j, the operation over 60"));
}

TEST_F(UserPlans, AFailingFunctionFailsTheReference) {
  const UserTile& tile = add(
      saxpy_text(),
      [](void* const*, const sk_tile_view*, const sk_tile_value*, void*) -> int32_t { return 0; });
  const Plan plan = make_plan(op_of(tile, {2, 3}), target_of(1)).value();
  World world;
  world.inputs.assign(1, std::vector<OperandBytes>(1));
  const Status status = run_reference(plan, world, 1);
  EXPECT_EQ(status.code(), SK_ERR_TILE);
  EXPECT_THAT(status.message(), HasSubstr("tile saxpy failed"));
}

}  // namespace
}  // namespace sk
