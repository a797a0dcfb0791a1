// Every record by itself, and what is derived from all of them.
#include "lib/op/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/op/expr.h"
#include "lib/op/extent.h"
#include "lib/op/judge.h"
#include "lib/op/words.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing::Not;

OpDesc description(OpKind kind) {
  OpDesc op;
  op.kind = kind;
  return op;
}

// Sizes, types and ranks that every operation takes.
OpDesc small(const Schema& schema) {
  OpDesc op = description(schema.id);
  const bool matrices = schema.operand("c") != nullptr;
  op.peer = schema.attribute("peer") != nullptr ? 1 : 0;
  if (schema.dimensions.empty()) return op;
  if (!matrices) {
    op.count = 5;
    return op;
  }
  op.m = 3;
  op.n = op.ldb = op.ldc = 4;
  op.k = op.lda = 5;
  op.pack_b = true;
  return op;
}

TEST(Schemas, NumbersAndNamesAreTheirOwn) {
  std::set<OpKind> ids;
  std::set<std::string> names;
  for (const Schema* schema : all_schemas()) {
    EXPECT_TRUE(ids.insert(schema->id).second) << schema->name;
    EXPECT_TRUE(names.insert(schema->name).second) << schema->name;
    EXPECT_EQ(schema_of(schema->id), schema);
    EXPECT_EQ(schema_of(schema->name), schema);
    EXPECT_LE(schema->operands.size(), Operands::kOperandsMax) << schema->name;
  }
  EXPECT_EQ(schema_of(OpKind(0)), nullptr);
  EXPECT_EQ(schema_of("all_reduce"), nullptr);
}

// What a schema names, it has; what it says can be computed.
TEST(Schemas, EveryNameInThemIsKnown) {
  for (const Schema* schema : all_schemas()) {
    SCOPED_TRACE(schema->name);
    const OpDesc op = small(*schema);
    const OpScope scope(*schema, op, 2, 1);
    for (const OperandSchema& operand : schema->operands) {
      SCOPED_TRACE(operand.name);
      size_t axes = 0;
      for_each_axis(operand.shape, [&](std::string_view axis) {
        EXPECT_TRUE(evaluate(axis, scope).ok()) << axis;
        ++axes;
      });
      EXPECT_EQ(axes, operand.stride == Member::kNone ? 1u : 2u);
      EXPECT_TRUE(evaluate(operand.alias_at, scope).ok());
      EXPECT_NE(operand.type, Member::kNone);
      for (const char* attribute : {operand.turned_by, operand.plain_if, operand.only_on}) {
        EXPECT_TRUE(*attribute == '\0' || schema->attribute(attribute) != nullptr) << attribute;
      }
      EXPECT_TRUE(*operand.alias == '\0' || schema->operand(operand.alias) != nullptr);
    }
    for (const Condition& condition : schema->conditions) {
      EXPECT_TRUE(evaluate(condition.holds, scope).ok()) << condition.holds;
    }
    EXPECT_THAT(describe(op), Not(HasSubstr("?")));
    EXPECT_EQ(mistake_in(op, 2), "");
  }
}

TEST(Schemas, DescriptionsReadAsTheirCalls) {
  OpDesc pair = small(*schema_of("send_recv"));
  EXPECT_EQ(describe(pair), "send_recv(f32, 5, 0 to 1)");
  OpDesc sum = small(*schema_of("allreduce"));
  sum.redop = RedOp::kMax;
  sum.symmetric_out = sum.in_place = true;
  EXPECT_EQ(describe(sum), "allreduce(f32, max, 5, symmetric out, in place)");
  OpDesc gemm = small(*schema_of("allreduce_gemm"));
  gemm.dtype = DType::kBF16;
  EXPECT_EQ(describe(gemm), "allreduce_gemm(bf16 to f32, 3 x 4 x 5)");
  EXPECT_EQ(describe(description(OpKind::kBarrier)), "barrier()");
  OpDesc alloc = description(OpKind::kAlloc);
  alloc.count = 64;
  EXPECT_EQ(describe(alloc), "alloc(64 bytes)");
  EXPECT_EQ(describe(description(OpKind(77))), "?(?)");
}

// Each word of a description that an operation does not have is refused if it is set.
TEST(Schemas, WordsOfOtherOperationsAreRefused) {
  using Change = void (*)(OpDesc&);
  const std::vector<std::pair<Member, Change>> changes = {
      {Member::kRedOp, [](OpDesc& op) { op.redop = RedOp::kMax; }},
      {Member::kSymmetricIn, [](OpDesc& op) { op.symmetric_in = true; }},
      {Member::kSymmetricOut, [](OpDesc& op) { op.symmetric_out = true; }},
      {Member::kTransposeA, [](OpDesc& op) { op.transpose_a = true; }},
      {Member::kPackB, [](OpDesc& op) { op.pack_b = true; }},
      {Member::kTransposeB, [](OpDesc& op) { op.transpose_b = true; }},
      {Member::kRoot, [](OpDesc& op) { op.root = 1; }},
      {Member::kPeer, [](OpDesc& op) { op.peer = 1; }},
      {Member::kCount, [](OpDesc& op) { op.count = 8; }},
      {Member::kM, [](OpDesc& op) { op.m = 8; }},
      {Member::kN, [](OpDesc& op) { op.n = 8; }},
      {Member::kK, [](OpDesc& op) { op.k = 8; }},
      {Member::kLda, [](OpDesc& op) { op.lda = 8; }},
      {Member::kLdb, [](OpDesc& op) { op.ldb = 8; }},
      {Member::kLdc, [](OpDesc& op) { op.ldc = 8; }}};
  int refused = 0;
  for (const Schema* schema : all_schemas()) {
    std::set<Member> own;
    for (const Dimension& each : schema->dimensions) own.insert(each.member);
    for (const Attribute& each : schema->attributes) own.insert(each.member);
    for (const OperandSchema& each : schema->operands) own.insert({each.stride, each.symmetric});
    for (const auto& [member, change] : changes) {
      if (own.contains(member)) continue;
      OpDesc op = small(*schema);
      change(op);
      EXPECT_THAT(mistake_in(op, 4), HasSubstr("words of another")) << schema->name;
      ++refused;
    }
  }
  EXPECT_GT(refused, 80);
}

TEST(Schemas, WhatAnOperationDoesNotAllowIsSaid) {
  const auto mistake = [](const char* name, auto&& change) {
    OpDesc op = small(*schema_of(name));
    change(op);
    return mistake_in(op, 2);
  };
  EXPECT_THAT(mistake("allreduce", [](OpDesc& op) { op.redop = RedOp::kAvg; }), "");
  EXPECT_THAT(mistake("allreduce",
                      [](OpDesc& op) {
                        op.redop = RedOp::kAvg;
                        op.dtype = op.out_dtype = DType::kI64;
                      }),
              HasSubstr("averages are for floating types"));
  EXPECT_THAT(mistake("broadcast", [](OpDesc& op) { op.root = 2; }), HasSubstr("has root 2"));
  EXPECT_THAT(mistake("broadcast", [](OpDesc& op) { op.root = -1; }), HasSubstr("has root -1"));
  EXPECT_THAT(mistake("send_recv", [](OpDesc& op) { op.peer = 0; }), HasSubstr("to itself"));
  EXPECT_THAT(mistake("send_recv", [](OpDesc& op) { op.in_place = true; }),
              HasSubstr("never in place"));
  EXPECT_THAT(mistake("allgather", [](OpDesc& op) { op.count = -1; }), HasSubstr("size of -1"));
  EXPECT_THAT(mistake("allreduce_gemm", [](OpDesc& op) { op.k = kElementsMax + 1; }),
              HasSubstr("allowed are 0 to 2^46"));
  EXPECT_THAT(mistake("allreduce_gemm", [](OpDesc& op) { op.dtype = DType::kI32; }),
              HasSubstr("a type that its a may not have"));
  EXPECT_THAT(mistake("allreduce_gemm", [](OpDesc& op) { op.out_dtype = DType::kF64; }),
              HasSubstr("a type that its c may not have"));
  EXPECT_THAT(mistake("allreduce_gemm", [](OpDesc& op) { op.lda = 4; }),
              HasSubstr("the stride of a, 4, is shorter than its rows of 5"));
  EXPECT_THAT(mistake("allreduce_gemm",
                      [](OpDesc& op) {
                        op.transpose_b = true;
                        op.ldb = 4;
                      }),
              HasSubstr("the stride of b, 4, is shorter than its rows of 5"));
  EXPECT_THAT(mistake("allreduce_gemm", [](OpDesc& op) { op.pack_b = false; }),
              HasSubstr("b comes packed"));
  EXPECT_THAT(mistake_in(description(OpKind(9)), 2), HasSubstr("unknown operation 9"));
}

TEST(Schemas, OperandsHaveTheirExtents) {
  OpDesc gather = small(*schema_of("allgather"));
  EXPECT_EQ(Operands(gather, 4, 0).extent(0).bytes, 20u);
  EXPECT_EQ(Operands(gather, 4, 0).extent(1).bytes, 80u);
  EXPECT_EQ(Operands(gather, 4, 0).window(0, 3).first, 0u);
  gather.in_place = true;  // Then the input is this rank's part of the output.
  EXPECT_EQ(Operands(gather, 4, 0).extent(0).bytes, 80u);
  EXPECT_EQ(Operands(gather, 4, 0).window(0, 3).first, 60u);
  EXPECT_EQ(Operands(gather, 4, 0).window(0, 3).count, 20u);
  EXPECT_EQ(Operands(gather, 4, 0).window(1, 3).count, 80u);

  const OpDesc pair = small(*schema_of("send_recv"));
  EXPECT_EQ(Operands(pair, 3, 0).window(0, 0).count, 20u);
  EXPECT_EQ(Operands(pair, 3, 0).window(0, 1).count, 0u);
  EXPECT_EQ(Operands(pair, 3, 0).window(1, 1).count, 20u);

  OpDesc gemm = small(*schema_of("allreduce_gemm"));
  gemm.transpose_a = true;  // Then A is stored as k rows of m.
  gemm.lda = 7;
  const Extent a = Operands(gemm, 2, 0).extent(0);
  EXPECT_EQ(a.rows, 5u);
  EXPECT_EQ(a.row_bytes, 12u);
  EXPECT_EQ(a.bytes, 4 * 28u + 12u);
  gemm.pack_b = false;
  EXPECT_EQ(Operands(gemm, 2, 4096).extent(2).bytes, 4096u);
  EXPECT_EQ(Operands(gemm, 2, 4096).extent(3).bytes, 0u);
  gemm.m = 0;  // Nothing is computed, so nothing is read.
  EXPECT_EQ(Operands(gemm, 2, 4096).extent(2).bytes, 0u);
  OpDesc huge = small(*schema_of("reduce_scatter"));
  huge.count = int64_t(1) << 60;
  EXPECT_TRUE(Operands(huge, 64, 0).extent(0).overflow);
}

}  // namespace
}  // namespace sk
