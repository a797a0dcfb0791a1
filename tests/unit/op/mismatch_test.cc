#include "lib/op/mismatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sk {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

OpDesc allreduce(int64_t count) {
  OpDesc op;
  op.kind = OpKind::kAllreduce;
  op.count = count;
  return op;
}

RankCall call(uint32_t rank, const OpDesc& op) { return {rank, fingerprint(op), op}; }

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

// Every field that a fingerprint has must have a name, or two equal calls would be printed.
TEST(Mismatch, EveryFieldOfADescriptorIsNamed) {
  OpDesc gemm;
  gemm.kind = OpKind::kAllreduceGemm;
  using Change = void (*)(OpDesc&);
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](OpDesc& op) { op.dtype = DType::kBF16; }, "dtype is bf16, not f32"},
      {[](OpDesc& op) { op.out_dtype = DType::kF64; }, "dtype of c is f64, not f32"},
      {[](OpDesc& op) { op.m = 3; }, "m is 3, not 0"},
      {[](OpDesc& op) { op.n = 3; }, "n is 3, not 0"},
      {[](OpDesc& op) { op.k = 3; }, "k is 3, not 0"},
      {[](OpDesc& op) { op.lda = 3; }, "stride of a is 3, not 0"},
      {[](OpDesc& op) { op.ldb = 3; }, "stride of b is 3, not 0"},
      {[](OpDesc& op) { op.ldc = 3; }, "stride of c is 3, not 0"},
      {[](OpDesc& op) { op.transpose_a = true; }, "transpose_a is true, not false"},
      {[](OpDesc& op) { op.transpose_b = true; }, "transpose_b is true, not false"},
      {[](OpDesc& op) { op.pack_b = true; }, "b packed before is false, not true"},
      {[](OpDesc& op) { op.symmetric_in = true; }, "a in symmetric memory is true, not false"},
      {[](OpDesc& op) { op.symmetric_out = true; }, "c in symmetric memory is true, not false"}};
  for (const auto& [change, says] : changes) {
    OpDesc odd = gemm;
    change(odd);
    EXPECT_THAT(explain_mismatch({call(0, gemm), call(1, gemm), call(2, odd)}), EndsWith(says));
  }
  OpDesc pair;
  pair.kind = OpKind::kSendRecv;
  OpDesc odd = pair;
  odd.peer = 4;
  odd.root = 2;
  EXPECT_THAT(explain_mismatch({call(0, pair), call(1, pair), call(2, odd)}),
              EndsWith(": sender is 2, not 0; receiver is 4, not 0"));
  OpDesc sum;
  sum.kind = OpKind::kAllreduce;
  odd = sum;
  odd.redop = RedOp::kMax;
  odd.in_place = true;
  EXPECT_THAT(explain_mismatch({call(0, sum), call(1, sum), call(2, odd)}),
              EndsWith(": op is max, not sum; in place is true, not false"));
}

TEST(Mismatch, EqualCallsWithOtherPlansAreNotPrintedAsIfTheyDiffered) {
  EXPECT_THAT(explain_mismatch({{0, 1, allreduce(4)}, {1, 2, allreduce(4)}}),
              HasSubstr("their plans for it differ"));
}

TEST(Mismatch, ManyRanksAreCut) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({3, 4}), "ranks 3 and 4");
  EXPECT_EQ(name_ranks({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

}  // namespace
}  // namespace sk
