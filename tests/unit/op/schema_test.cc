// Every record by itself, and what is derived from all of them.
#include "lib/op/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/op/extent.h"
#include "lib/op/judge.h"
#include "lib/op/ops/all.h"
#include "lib/op/scope.h"
#include "lib/op/well_formed.h"

namespace sk {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr GemmCall kProduct = {
    .pack_b = true, .m = 3, .n = 4, .k = 5, .lda = 5, .ldb = 4, .ldc = 4};

// Sizes, types and ranks that every operation takes.
OpDesc small(const Schema& schema) {
  if (is_product(schema)) return describe(schema, kProduct);
  if (schema.field("bytes")) return memory_call(schema.id, 64);
  if (schema.scope == Scope::kLocal) {
    OpDesc op(schema);
    for (size_t i = 0; i < schema.dimensions.size(); ++i) op.set(schema.dimension_field(i), 5);
    for (size_t i = 0; i < schema.operands.size(); ++i) {
      if (const Field stride = schema.stride_field(i)) op.set(stride, 6);
    }
    return op;
  }
  return describe(schema, {.peer = 1, .count = 5});
}

TEST(Schemas, NumbersAndNamesAreTheirOwn) {
  std::set<OpKind> ids;
  std::set<std::string> names;
  for (const Schema* schema : all_schemas()) {
    EXPECT_TRUE(ids.insert(schema->id).second) << schema->name;
    EXPECT_TRUE(names.insert(schema->name).second) << schema->name;
    EXPECT_EQ(schema_of(schema->id), schema);
    EXPECT_EQ(schema_of(schema->name), schema);
  }
  EXPECT_EQ(schema_of(OpKind(0)), nullptr);
  EXPECT_EQ(schema_of("all_reduce"), nullptr);
}

TEST(Schemas, DescribeWhatTheyAllow) {
  for (const Schema* schema : all_schemas()) {
    EXPECT_EQ(flaw_in(*schema), kNoFlaw) << schema->name;
    const OpDesc op = small(*schema);
    EXPECT_THAT(describe(op), Not(HasSubstr("?")));
    EXPECT_EQ(mistake_in(op, 2), "");
  }
}

TEST(Schemas, ANameMeansOneThing) {
  const OpDesc op = describe(ops::kAllreduce, {.redop = RedOp::kAvg, .count = 5});
  const OpScope scope(op, 2, 1);
  EXPECT_EQ(evaluate("(op == op_avg) * (op_sum + op_min + op_max)", scope).value,
            SK_SUM + SK_MIN + SK_MAX);
  EXPECT_EQ(evaluate("is_float(in_) + 10 * is_float(out)", scope).value, 11);
  EXPECT_EQ(evaluate("rank + 10 * world", scope).value, 21);
  for (const char* name : {"avg", "sum", "op_", "op_any", "root", "in_", "out", "m"}) {
    EXPECT_EQ(evaluate(name, scope).error, ExprError::kUnknownName) << name;
  }
  const OpDesc gather(ops::kAllgather);
  EXPECT_EQ(evaluate("op_avg", OpScope(gather, 2, 1)).error, ExprError::kUnknownName);
  EXPECT_EQ(evaluate("rank", OpScope(gather, 2)).error, ExprError::kUnknownName);
}

// All fields of a schema, with names.
std::vector<std::pair<std::string, Field>> fields_of(const Schema& schema) {
  std::vector<std::pair<std::string, Field>> fields;
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const OperandSchema& operand = schema.operands[i];
    const std::string name = operand.name;
    fields.emplace_back(name + ".type", OpDesc::type_field(i));
    fields.emplace_back(name + ".storage", OpDesc::storage_field(i));
    if (operand.reached) fields.emplace_back(name + ".symmetric", OpDesc::symmetric_field(i));
    if (operand.alias[0] != '\0') fields.emplace_back(name + ".aliased", OpDesc::aliased_field(i));
    if (operand.optional) fields.emplace_back(name + ".absent", OpDesc::absent_field(i));
    if (schema.stride_field(i)) fields.emplace_back(name + ".stride", schema.stride_field(i));
  }
  for (const Dimension& each : schema.dimensions)
    fields.emplace_back(each.name, schema.field(each.name));
  for (const Attribute& each : schema.attributes) {
    if (!each.runtime) fields.emplace_back(each.name, schema.field(each.name));
  }
  return fields;
}

TEST(Descriptions, KeepEachFieldApart) {
  for (const Schema* schema : all_schemas()) {
    const auto fields = fields_of(*schema);
    for (const auto& [name, field] : fields) {
      OpDesc op(*schema);
      const OpDesc before = op;
      const int64_t other = before[field] ^ 1;
      op.set(field, other);
      EXPECT_EQ(op[field], other) << schema->name << " " << name;
      EXPECT_FALSE(op == before) << schema->name << " " << name;
      EXPECT_NE(op.hash(), before.hash()) << schema->name << " " << name;
      EXPECT_FALSE(op.has_foreign_bits()) << schema->name << " " << name;
      for (const auto& [another, its] : fields) {
        if (another == name) continue;
        EXPECT_EQ(op[its], before[its]) << schema->name << " " << another;
      }
    }
  }
  OpDesc gemm(ops::kAllreduceGemm);
  gemm.set(ops::kAllreduceGemm.field("k"), -7);
  EXPECT_EQ(gemm[ops::kAllreduceGemm.field("k")], -7);
}

// Which words the operations have, told apart from their records: "reached" is what plans of their
// planners may ask of peers.
TEST(Descriptions, HaveTheseFields) {
  const std::vector<std::pair<const char*, std::set<std::string>>> kFields = {
      {"barrier", {}},
      {"allreduce",
       {"in.type", "in.storage", "in.symmetric", "out.type", "out.storage", "out.symmetric",
        "out.aliased", "count", "op"}},
      {"allgather",
       {"in.type", "in.storage", "in.aliased", "out.type", "out.storage", "out.symmetric",
        "count"}},
      {"reduce_scatter",
       {"in.type", "in.storage", "in.symmetric", "out.type", "out.storage", "out.symmetric",
        "out.aliased", "count", "op"}},
      {"broadcast",
       {"in.type", "in.storage", "out.type", "out.storage", "out.symmetric", "count", "root"}},
      {"alltoall", {"in.type", "in.storage", "out.type", "out.storage", "out.symmetric", "count"}},
      {"reduce",
       {"in.type", "in.storage", "in.symmetric", "out.type", "out.storage", "count", "op", "root"}},
      {"gather", {"in.type", "in.storage", "out.type", "out.storage", "count", "root"}},
      {"scatter",
       {"in.type", "in.storage", "out.type", "out.storage", "out.symmetric", "count", "root"}},
      {"send_recv", {"in.type", "in.storage", "out.type", "out.storage", "count", "root", "peer"}},
      {"allreduce_gemm",
       {"a.type", "a.storage", "a.stride", "c.type", "c.storage", "c.symmetric", "c.stride",
        "b.type", "b.storage", "b.stride", "m", "n", "k", "transpose_a", "transpose_b"}},
      {"allgather_gemm",
       {"a.type", "a.storage", "a.symmetric", "a.stride", "c.type", "c.storage", "c.stride",
        "b.type", "b.storage", "b.stride", "m", "n", "k", "transpose_a", "transpose_b"}},
      {"rmsnorm",
       {"x.type", "x.storage", "x.stride", "y.type", "y.storage", "y.stride", "y.aliased",
        "weight.type", "weight.storage", "weight.absent", "rstd.type", "rstd.storage",
        "rstd.absent", "m", "n", "eps"}},
      {"rmsnorm_backward",
       {"x.type", "x.storage", "x.stride", "dy.type", "dy.storage", "dy.stride", "rstd.type",
        "rstd.storage", "dx.type", "dx.storage", "dx.stride", "weight.type", "weight.storage",
        "weight.absent", "dweight.type", "dweight.storage", "dweight.absent", "m", "n"}},
      {"adamw",
       {"params.type",
        "params.storage",
        "grads.type",
        "grads.storage",
        "ms.type",
        "ms.storage",
        "vs.type",
        "vs.storage",
        "new_params.type",
        "new_params.storage",
        "new_params.aliased",
        "new_ms.type",
        "new_ms.storage",
        "new_ms.aliased",
        "new_vs.type",
        "new_vs.storage",
        "new_vs.aliased",
        "n",
        "beta1",
        "beta2",
        "eps",
        "weight_decay"}},
      {"add_rmsnorm",
       {"x.type",
        "x.storage",
        "x.stride",
        "residual.type",
        "residual.storage",
        "residual.stride",
        "y.type",
        "y.storage",
        "y.stride",
        "y.aliased",
        "total.type",
        "total.storage",
        "total.stride",
        "total.aliased",
        "weight.type",
        "weight.storage",
        "weight.absent",
        "rstd.type",
        "rstd.storage",
        "rstd.absent",
        "m",
        "n",
        "eps"}},
      {"alloc", {"bytes"}},
      {"free", {"bytes"}},
      {"register", {"bytes"}},
      {"deregister", {"bytes"}}};
  std::set<std::string> listed, there;
  for (const auto& each : kFields) listed.insert(each.first);
  for (const Schema* schema : all_schemas()) there.insert(schema->name);
  ASSERT_EQ(listed, there) << "each operation's words are told once here";
  for (const auto& [name, wanted] : kFields) {
    std::set<std::string> found;
    for (const auto& field : fields_of(*schema_of(name))) found.insert(field.first);
    EXPECT_EQ(found, wanted) << name;
  }
}

TEST(Descriptions, ReadAsTheirCalls) {
  EXPECT_EQ(describe(small(ops::kSendRecv)), "send_recv(f32, 5, 0 to 1)");
  VectorCall sum{.redop = RedOp::kMax, .symmetric_out = true, .in_place = true, .count = 5};
  EXPECT_EQ(describe(describe(ops::kAllreduce, sum)),
            "allreduce(f32, max, 5, symmetric out, in place)");
  sum.symmetric_in = true;
  EXPECT_EQ(describe(describe(ops::kAllreduce, sum)),
            "allreduce(f32, max, 5, symmetric, in place)");
  GemmCall gemm = kProduct;
  gemm.dtype = DType::kBF16;
  EXPECT_EQ(describe(describe(ops::kAllreduceGemm, gemm)),
            "allreduce_gemm(bf16 to f32, 3 x 4 x 5)");
  EXPECT_EQ(describe(OpDesc()), "barrier()");
  EXPECT_EQ(describe(memory_call(OpKind::kAlloc, 64)), "alloc(64 bytes)");
  EXPECT_STREQ(op_kind_name(OpKind(77)), "?");
}

// Each bit of a description that its operation does not have is refused if it is set.
TEST(Descriptions, WordsOfOtherOperationsAreRefused) {
  int refused = 0;
  for (const Schema* schema : all_schemas()) {
    std::array<uint64_t, OpDesc::kWordsMax> own{};
    for (const auto& [name, field] : fields_of(*schema)) own[field.word] |= field.mask();
    for (uint8_t word = 0; word < OpDesc::kWordsMax; ++word) {
      for (uint8_t bit = 0; bit < 64; bit += word == 0 ? 1 : 7) {
        const Field field{word, bit, 1};
        if ((own[word] & field.mask()) != 0) continue;
        OpDesc op = small(*schema);
        op.set(field, 1);
        EXPECT_THAT(mistake_in(op, 4), EndsWith("words of another operation")) << schema->name;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 3000);
}

TEST(Descriptions, WhatAnOperationDoesNotAllowIsSaid) {
  const auto vectors = [](const Schema& schema, auto&& change) {
    VectorCall call{.peer = 1, .count = 5};
    change(call);
    return mistake_in(describe(schema, call), 2);
  };
  EXPECT_EQ(vectors(ops::kAllreduce, [](VectorCall& c) { c.redop = RedOp::kAvg; }), "");
  EXPECT_THAT(vectors(ops::kAllreduce,
                      [](VectorCall& c) {
                        c.redop = RedOp::kAvg;
                        c.dtype = DType::kI64;
                      }),
              HasSubstr("averages are for floating types"));
  EXPECT_EQ(vectors(ops::kAllreduce, [](VectorCall& c) { c.redop = RedOp(9); }),
            "allreduce: op has the unknown value 9");
  EXPECT_EQ(vectors(ops::kAllreduce, [](VectorCall& c) { c.dtype = DType(77); }),
            "allreduce: in has the unknown type 77");
  EXPECT_THAT(vectors(ops::kBroadcast, [](VectorCall& c) { c.root = 2; }), HasSubstr("has root 2"));
  EXPECT_THAT(vectors(ops::kBroadcast, [](VectorCall& c) { c.root = -1; }),
              HasSubstr("has root -1"));
  EXPECT_THAT(vectors(ops::kSendRecv, [](VectorCall& c) { c.peer = 2; }),
              HasSubstr("in a world of 2 has receiver 2"));
  EXPECT_THAT(vectors(ops::kSendRecv, [](VectorCall& c) { c.peer = 0; }), HasSubstr("to itself"));
  EXPECT_EQ(vectors(ops::kAllgather, [](VectorCall& c) { c.count = -1; }),
            "allgather: count is -1, allowed are 0 to 2^46");
  EXPECT_EQ(vectors(ops::kAllgather, [](VectorCall& c) { c.count = INT64_MIN; }).rfind("allgather"),
            0u);
  const auto product = [](auto&& change) {
    GemmCall call = kProduct;
    change(call);
    return mistake_in(describe(ops::kAllreduceGemm, call), 2);
  };
  EXPECT_THAT(product([](GemmCall& c) { c.k = kElementsMax + 1; }),
              EndsWith("k is 70368744177665, allowed are 0 to 2^46"));
  EXPECT_THAT(product([](GemmCall& c) { c.lda = -5; }), HasSubstr("the stride of a is -5"));
  EXPECT_THAT(product([](GemmCall& c) { c.dtype = DType::kI32; }),
              HasSubstr("a may not be i32 (\"float\")"));
  EXPECT_THAT(product([](GemmCall& c) { c.out_dtype = DType::kF64; }),
              HasSubstr("c may not be f64 (\"a|f32\")"));
  EXPECT_THAT(product([](GemmCall& c) { c.lda = 4; }),
              HasSubstr("the stride of a, 4, is shorter than its rows of 5"));
  EXPECT_THAT(product([](GemmCall& c) {
                c.transpose_b = true;
                c.ldb = 4;
              }),
              HasSubstr("the stride of b, 4, is shorter than its rows of 5"));
  EXPECT_THAT(product([](GemmCall& c) { c.pack_b = false; }), HasSubstr("b comes packed"));
  OpDesc mixed = describe(ops::kAllreduceGemm, kProduct);
  mixed.set(OpDesc::type_field(GemmCall::kB), int64_t(DType::kF16));
  EXPECT_THAT(mistake_in(mixed, 2), HasSubstr("b may not be f16 (\"a\")"));
  mixed = describe(ops::kAllreduceGemm, kProduct);
  mixed.set(OpDesc::storage_field(GemmCall::kA), int64_t(Storage::kPackedB));
  EXPECT_THAT(mistake_in(mixed, 2), HasSubstr("a is stored as it cannot be"));
}

Operands operands_of(const Schema& schema, const VectorCall& call, uint32_t ranks) {
  return Operands(describe(schema, call), ranks, 0);
}

TEST(Operands, OfVectorsHaveTheirExtents) {
  const Operands gather = operands_of(ops::kAllgather, {.count = 5}, 4);
  EXPECT_EQ(gather.extent(0).bytes, 20u);
  EXPECT_EQ(gather.extent(1).bytes, 80u);
  EXPECT_EQ(gather.window(0, 3).first, 0u);
  // In place the input is this rank's part of the output.
  const Operands inside = operands_of(ops::kAllgather, {.in_place = true, .count = 5}, 4);
  EXPECT_EQ(inside.extent(0).bytes, 80u);
  EXPECT_EQ(inside.window(0, 3).first, 60u);
  EXPECT_EQ(inside.window(0, 3).count, 20u);
  EXPECT_EQ(inside.window(0, 4).count, 0u);  // There is no such part.
  EXPECT_EQ(inside.window(1, 3).count, 80u);
  EXPECT_EQ(inside.home(0), 1u);
  EXPECT_TRUE(inside.shared(1));
  EXPECT_FALSE(gather.shared(1));

  const Operands scatter = operands_of(ops::kReduceScatter, {.in_place = true, .count = 5}, 4);
  EXPECT_EQ(scatter.extent(1).bytes, 80u);
  EXPECT_EQ(scatter.window(1, 2).first, 40u);
  EXPECT_EQ(scatter.window(1, 2).count, 20u);
  EXPECT_EQ(scatter.window(0, 2).count, 80u);

  const Operands pair = operands_of(ops::kSendRecv, {.peer = 1, .count = 5}, 3);
  EXPECT_EQ(pair.window(0, 0).count, 20u);
  EXPECT_EQ(pair.window(0, 1).count, 0u);
  EXPECT_EQ(pair.window(1, 1).count, 20u);
  EXPECT_TRUE(pair.has(0, 0));
  EXPECT_FALSE(pair.has(0, 1));
  EXPECT_FALSE(pair.has(1, 2));

  const Operands root = operands_of(ops::kBroadcast, {.root = 2, .count = 5}, 3);
  EXPECT_EQ(root.window(0, 2).count, 20u);
  EXPECT_EQ(root.window(0, 1).count, 0u);
  EXPECT_EQ(root.window(1, 1).count, 20u);
  EXPECT_TRUE(operands_of(ops::kReduceScatter, {.count = int64_t(1) << 60}, 64).extent(0).overflow);
}

TEST(Operands, OfProductsHaveTheirExtents) {
  GemmCall gemm = kProduct;
  gemm.transpose_a = true;  // Then A is stored as k rows of m.
  gemm.lda = 7;
  const Extent a = Operands(describe(ops::kAllreduceGemm, gemm), 2, 0).extent(GemmCall::kA);
  EXPECT_EQ(a.rows, 5u);
  EXPECT_EQ(a.row_bytes, 12u);
  EXPECT_EQ(a.bytes, 4 * 28u + 12u);
  gemm.pack_b = false;
  gemm.ldb = 0;
  EXPECT_EQ(Operands(describe(ops::kAllreduceGemm, gemm), 2, 4096).extent(GemmCall::kB).bytes,
            4096u);
  EXPECT_EQ(Operands(describe(ops::kAllreduceGemm, gemm), 2, 4096).extent(3).bytes, 0u);
  gemm.m = 0;  // Nothing is computed, so nothing is read.
  EXPECT_EQ(Operands(describe(ops::kAllreduceGemm, gemm), 2, 4096).extent(GemmCall::kB).bytes, 0u);
}

}  // namespace
}  // namespace sk
