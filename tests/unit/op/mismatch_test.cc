#include "lib/op/mismatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/op/ops/all.h"

namespace sk {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

OpDesc allreduce(int64_t count) { return describe(ops::kAllreduce, {.count = count}); }

RankCall call(uint32_t rank, const OpDesc& op) { return {rank, op.hash(), call_text(op)}; }

TEST(Mismatch, OfTwoRanksNamesTheLowerOneFirst) {
  EXPECT_EQ(explain_mismatch({call(1, allreduce(5)), call(0, allreduce(4))}),
            "rank 0 called allreduce(f32, sum, 4) while rank 1 called allreduce(f32, sum, 5): "
            "count is 4 and 5");
}

TEST(Mismatch, WhoeverIsWithMostIsNotNamed) {
  std::vector<RankCall> calls;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    calls.push_back(call(rank, allreduce(rank == 5 || rank == 9 ? 3 : 4)));
  }
  EXPECT_EQ(explain_mismatch(calls),
            "ranks 5 and 9 called allreduce(f32, sum, 3) while the other 14 ranks called "
            "allreduce(f32, sum, 4): count is 3, not 4");
}

TEST(Mismatch, SeveralGroupsAreToldApart) {
  std::vector<RankCall> calls;
  for (uint32_t rank = 0; rank < 9; ++rank)
    calls.push_back(call(rank, allreduce(rank > 4 ? rank : 1)));
  EXPECT_EQ(explain_mismatch(calls),
            "rank 5 called allreduce(f32, sum, 5), rank 6 called allreduce(f32, sum, 6), rank 7 "
            "called allreduce(f32, sum, 7), rank 8 something else while the other 5 ranks called "
            "allreduce(f32, sum, 1)");
}

TEST(Mismatch, FieldsAreNamedAsCallersKnowThem) {
  const auto product = [](auto&& change) {
    GemmCall call;
    change(call);
    return describe(ops::kAllreduceGemm, call);
  };
  using Change = void (*)(GemmCall&);
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](GemmCall& c) { c.dtype = DType::kBF16; }, "dtype is bf16, not f32"},
      {[](GemmCall& c) { c.out_dtype = DType::kF64; }, "dtype of c is f64, not f32"},
      {[](GemmCall& c) { c.m = 3; }, "m is 3, not 0"},
      {[](GemmCall& c) { c.lda = 3; }, "stride of a is 3, not 0"},
      {[](GemmCall& c) { c.ldb = 3; }, "stride of b is 3, not 0"},
      {[](GemmCall& c) { c.ldc = 3; }, "stride of c is 3, not 0"},
      {[](GemmCall& c) { c.transpose_a = true; }, "transpose_a is true, not false"},
      {[](GemmCall& c) { c.pack_b = true; }, "b packed before is false, not true"},
      {[](GemmCall& c) { c.symmetric_out = true; }, "c in symmetric memory is true, not false"}};
  const OpDesc gemm = describe(ops::kAllreduceGemm, GemmCall());
  for (const auto& [change, says] : changes) {
    const OpDesc odd = product(change);
    EXPECT_THAT(explain_mismatch({call(0, gemm), call(1, gemm), call(2, odd)}), EndsWith(says));
  }
  const OpDesc pair(ops::kSendRecv), other = describe(ops::kSendRecv, {.root = 2, .peer = 4});
  EXPECT_THAT(explain_mismatch({call(0, pair), call(1, pair), call(2, other)}),
              EndsWith(": sender is 2, not 0; receiver is 4, not 0"));
  const OpDesc sum(ops::kAllreduce),
      odd = describe(ops::kAllreduce, {.redop = RedOp::kMax, .in_place = true});
  EXPECT_THAT(explain_mismatch({call(0, sum), call(1, sum), call(2, odd)}),
              EndsWith(": op is max, not sum; in place is true, not false"));
}

// Every field that a hash has must have a name, or two equal calls would be printed. That an
// operand is of another one's type is no field of its own, nor is the one way to store it.
TEST(Mismatch, EveryFieldOfADescriptionIsNamed) {
  for (const Schema* schema : all_schemas()) {
    std::vector<std::pair<std::string, Field>> fields;
    for (uint32_t i = 0; i < schema->operands.size(); ++i) {
      const OperandSchema& operand = schema->operands[i];
      const std::string name = operand.name;
      if (schema->operand(operand.types) == nullptr) {
        fields.emplace_back(i == 0 ? "dtype" : "dtype of " + name, OpDesc::type_field(i));
      }
      if (operand.storage != operand.or_storage) {
        fields.emplace_back(name + " packed before", OpDesc::storage_field(i));
      }
      if (operand.reached) {
        fields.emplace_back(name + " in symmetric memory", OpDesc::symmetric_field(i));
      }
      if (operand.alias[0] != '\0') fields.emplace_back("in place", OpDesc::aliased_field(i));
      if (schema->stride_field(i)) {
        fields.emplace_back("stride of " + name, schema->stride_field(i));
      }
    }
    for (const Dimension& each : schema->dimensions) {
      fields.emplace_back(each.name, schema->field(each.name));
    }
    for (const Attribute& each : schema->attributes) {
      // A value of a run is in no description, so that no two differ in it.
      if (each.runtime) {
        EXPECT_FALSE(schema->field(each.name)) << schema->name << " " << each.name;
        continue;
      }
      fields.emplace_back(each.spoken(), schema->field(each.name));
    }
    const OpDesc usual(*schema);
    for (const auto& [name, field] : fields) {
      OpDesc odd = usual;
      odd.set(field, usual[field] == 1 ? (field.bits == 1 ? 0 : 2) : 1);
      ASSERT_FALSE(odd == usual);
      const std::string sentence = explain_mismatch({call(0, usual), call(1, usual), call(2, odd)});
      EXPECT_THAT(sentence, HasSubstr(": " + name + " is ")) << schema->name;
      EXPECT_THAT(sentence, testing::Not(HasSubstr("; "))) << schema->name;  // And nothing else.
    }
  }
}

TEST(Mismatch, EqualCallsWithOtherPlansAreNotPrintedAsIfTheyDiffered) {
  EXPECT_THAT(explain_mismatch({{0, 1, call_text(allreduce(4))}, {1, 2, call_text(allreduce(4))}}),
              HasSubstr("it is the same call, by plans that differ"));
}

TEST(Mismatch, ManyRanksAreCut) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({3, 4}), "ranks 3 and 4");
  EXPECT_EQ(name_ranks({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

// Whatever a peer sends is text at best.
TEST(Mismatch, TextsThatAreNoneAreSomethingElse) {
  const std::string own = call_text(allreduce(4));
  for (const std::string& text : {std::string(), std::string("\n"), std::string("allreduce"),
                                  std::string(100, '\t'), std::string(5000, '\n')}) {
    EXPECT_THAT(explain_mismatch({{0, 1, own}, {1, 2, text}}),
                HasSubstr("rank 0 called allreduce(f32, sum, 4) while rank 1 called "));
  }
}

TEST(Mismatch, WhatIsCutOffIsNotTakenForTheSame) {
  const std::string line = "kind\nkind(x)\n", longer(kCallTextMax, 'x');
  const std::string a = cut_call_text(line + "n\t1\n" + longer),
                    b = cut_call_text(line + "n\t2\n" + longer + "y"),
                    c = cut_call_text(line + "n\t1\n" + longer + "z");
  EXPECT_LE(a.size(), kCallTextMax);
  EXPECT_THAT(explain_mismatch({{0, 1, a}, {1, 2, b}}), EndsWith(": n is 1 and 2"));
  EXPECT_THAT(explain_mismatch({{0, 1, a}, {1, 2, c}}),
              EndsWith(": they differ in what is too long to be told"));
}

}  // namespace
}  // namespace sk
