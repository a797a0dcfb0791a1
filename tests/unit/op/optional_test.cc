// What rows have that vectors and products have not: operands that may be absent, types of sums,
// numbers with bounds, rows in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/op/extent.h"
#include "lib/op/judge.h"
#include "lib/op/mismatch.h"
#include "lib/op/types.h"
#include "lib/op/values.h"
#include "lib/op/well_formed.h"

namespace sk {
namespace {

using testing::HasSubstr;

constexpr Dimension kExtents[] = {{"rows"}, {"cols"}};
constexpr OperandSchema kOperands[] = {
    {.name = "x",
     .role = Role::kIn,
     .types = "float",
     .shape = "rows, cols",
     .storage = Storage::kRows},
    {.name = "y",
     .role = Role::kOut,
     .types = "x",
     .shape = "rows, cols",
     .storage = Storage::kRows,
     .alias = "x"},
    {.name = "w", .role = Role::kIn, .types = "x|f32", .shape = "cols", .optional = true},
    {.name = "s", .role = Role::kOut, .types = "accumulator(x)", .shape = "rows", .optional = true},
};
constexpr Attribute kNumbers[] = {
    {.name = "eps", .kind = AttributeKind::kFloat, .lowest = 0, .suggested = "1e-5"},
    {.name = "block", .kind = AttributeKind::kInt, .least = "1", .most = "max(1, 2 * rows)"}};
constexpr Steps kMeaning =
    steps_of("y@r[i, j] = f[j](x@r[i, j], w@r[j]); s@r[i] = g[j](x@r[i, j])");
constexpr Schema kRows = {.id = OpKind(60),
                          .name = "rows_of",
                          .brief = "{x.dtype}, {rows} x {cols}, {eps}",
                          .scope = Scope::kLocal,
                          .dimensions = kExtents,
                          .operands = kOperands,
                          .attributes = kNumbers,
                          .meaning = &kMeaning};
static_assert(flaw_in(kRows) == kNoFlaw);
constexpr uint32_t kX = 0, kY = 1, kW = 2, kS = 3;

OpDesc usual() {
  OpDesc op(kRows);
  op.set(field_of(kRows, "rows"), 3);
  op.set(field_of(kRows, "cols"), 5);
  op.set(kRows.stride_field(kX), 8);
  op.set(kRows.stride_field(kY), 5);
  op.set(field_of(kRows, "eps"), bits_of(1e-5));
  op.set(field_of(kRows, "block"), 6);
  return op;
}

TEST(Optional, WhatIsAbsentHasNoBytesAndOneDescription) {
  OpDesc op = usual();
  EXPECT_TRUE(is_local(op));
  EXPECT_EQ(mistake_in(op, 1), "");
  EXPECT_EQ(Operands(op, 1, 0).extent(kW).bytes, 5 * 4u);
  EXPECT_TRUE(has_operand(op, kW, 0));
  const uint64_t with = op.hash();
  op.set(OpDesc::absent_field(kW), 1);
  EXPECT_EQ(mistake_in(op, 1), "");
  EXPECT_NE(op.hash(), with);
  EXPECT_EQ(Operands(op, 1, 0).extent(kW).bytes, 0u);
  EXPECT_EQ(Operands(op, 1, 0).window(kW, 0).count, 0u);
  EXPECT_FALSE(Operands(op, 1, 0).has(kW, 0));
  EXPECT_FALSE(has_operand(op, kW, 0));
  EXPECT_THAT(call_text(op), HasSubstr("w given\tfalse"));
  for (const uint32_t other : {kX, kY}) {  // These are never absent.
    OpDesc wrong = usual();
    wrong.set(OpDesc::absent_field(other), 1);
    EXPECT_THAT(mistake_in(wrong, 1), HasSubstr("words of another operation"));
  }
  op.set(OpDesc::type_field(kX), SK_BF16);
  op.set(OpDesc::type_field(kY), SK_BF16);
  EXPECT_THAT(mistake_in(op, 1), HasSubstr("w is absent and described"));
  op.set(OpDesc::type_field(kW), SK_BF16);
  EXPECT_EQ(mistake_in(op, 1), "");
}

TEST(Optional, SumsHaveTheirTypes) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    OpDesc op = usual();
    for (const uint32_t operand : {kX, kY, kW}) op.set(OpDesc::type_field(operand), int64_t(type));
    const DType sums = type == DType::kF64 ? DType::kF64 : DType::kF32;
    EXPECT_EQ(first_type(op, kS), sums);
    for (int32_t each = SK_F32; each <= SK_I64; ++each) {
      op.set(OpDesc::type_field(kS), each);
      EXPECT_EQ(mistake_in(op, 1).empty(), DType(each) == sums) << dtype_name(type) << each;
    }
  }
}

TEST(Optional, NumbersHaveTheirBounds) {
  const auto mistake = [](const char* name, int64_t value) {
    OpDesc op = usual();
    op.set(kRows.field(name), value);
    return mistake_in(op, 1);
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double good : {0.0, -0.0, 1e-300, 1.0, kInf}) {
    EXPECT_EQ(mistake("eps", bits_of(good)), "") << good;
  }
  EXPECT_THAT(mistake("eps", bits_of(-1e-9)), HasSubstr("eps is -1e-09, allowed are 0 to inf"));
  EXPECT_THAT(mistake("eps", bits_of(std::nan(""))), HasSubstr("eps is nan"));
  for (const int64_t good : {1, 2, 6}) EXPECT_EQ(mistake("block", good), "") << good;
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{7}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(mistake("block", bad), HasSubstr("allowed are 1 to 6")) << bad;
  }
}

TEST(Optional, RowsInPlaceLieAlike) {
  OpDesc op = usual();
  op.set(OpDesc::aliased_field(kY), 1);
  EXPECT_THAT(mistake_in(op, 1), HasSubstr("in place y and x have unlike strides"));
  op.set(kRows.stride_field(kY), 8);
  EXPECT_EQ(mistake_in(op, 1), "");
  const Operands operands(op, 1, 0);
  EXPECT_EQ(operands.home(kY), kX);
  EXPECT_EQ(operands.extent(kY).bytes, operands.extent(kX).bytes);
  EXPECT_EQ(operands.window(kY, 0).first, 0u);
}

TEST(Optional, FlawsAreFound) {
  const auto flaw = [](auto&& change) {
    std::vector<OperandSchema> operands(std::begin(kOperands), std::end(kOperands));
    std::vector<Attribute> numbers(std::begin(kNumbers), std::end(kNumbers));
    change(operands, numbers);
    Schema schema = kRows;
    schema.operands = operands;
    schema.attributes = numbers;
    return flaw_in(schema);
  };
  using Os = std::vector<OperandSchema>&;
  using As = std::vector<Attribute>&;
  EXPECT_EQ(flaw([](Os, As) {}), kNoFlaw);
  EXPECT_THAT(flaw([](Os os, As) { os[3].types = "accumulator(q)"; }), HasSubstr("types"));
  EXPECT_THAT(flaw([](Os os, As) { os[1].shape = "cols, rows"; }), HasSubstr("in place"));
  EXPECT_THAT(flaw([](Os os, As) { os[1].types = "float"; }), HasSubstr("in place"));
  EXPECT_THAT(flaw([](Os os, As) { os[0].optional = true; }), HasSubstr("in place"));
  EXPECT_THAT(flaw([](Os, As as) { as[1].most = "eps"; }), HasSubstr("bound"));
  EXPECT_THAT(flaw([](Os, As as) { as[0].most = "1"; }), HasSubstr("no integer's"));
  EXPECT_THAT(flaw([](Os, As as) { as[0].lowest = 1, as[0].highest = 0; }),
              HasSubstr("nothing is"));
}

}  // namespace
}  // namespace sk
