// What joins and what does not: intervals of ranks in order, blocks of them, counts of integers.
#include "lib/effect/term.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace sk::effect {
namespace {

using testing::HasSubstr;

Term element(uint32_t rank, DType dtype = DType::kF32) {
  return {.array = 1, .dtype = dtype, .first = rank, .last = rank + 1};
}

std::vector<Term> elements(std::initializer_list<uint32_t> ranks, DType dtype = DType::kF32) {
  std::vector<Term> out;
  for (const uint32_t rank : ranks) out.push_back(element(rank, dtype));
  return out;
}

Joining of(uint32_t count, DType dtype = DType::kF32, std::initializer_list<uint32_t> blocks = {},
           RedOp redop = RedOp::kSum) {
  Joining joining{.array = 1, .out = 2, .redop = redop, .dtype = dtype, .count = count};
  for (const uint32_t block : blocks) joining.blocks.push_back(block);
  joining.any_order = !is_float(dtype);
  for (uint32_t rank = 0; rank < count; ++rank) joining.all += Joining::hash_of(rank);
  return joining;
}

Term joined(const Joining& joining, const std::vector<Term>& terms) {
  const Result<Term> term = joining.join(terms);
  EXPECT_TRUE(term.ok()) << term.status().message();
  return term.ok() ? term.value() : Term();
}

std::string refusal(const Joining& joining, const std::vector<Term>& terms) {
  const Result<Term> term = joining.join(terms);
  EXPECT_FALSE(term.ok());
  return term.status().message();
}

TEST(Joining, GrowsByTheNextRank) {
  const Joining sum = of(4);
  EXPECT_TRUE(sum.is_whole(joined(sum, elements({0, 1, 2, 3}))));
  const Term half = joined(sum, elements({0, 1}));
  EXPECT_FALSE(sum.is_whole(half));
  EXPECT_TRUE(sum.is_whole(joined(sum, {half, element(2), element(3)})));
}

TEST(Joining, InTheWrongOrderIsRefused) {
  EXPECT_THAT(refusal(of(4), elements({0, 2, 1, 3})),
              HasSubstr("input 1 is rank 2's contribution, where rank 1's is next in order"));
  EXPECT_THAT(refusal(of(4), elements({1, 0})), HasSubstr("begins with rank 1's contribution"));
}

TEST(Joining, ADroppedRankIsRefused) {
  EXPECT_THAT(refusal(of(4), elements({0, 1, 3})), HasSubstr("where rank 2's is next"));
  EXPECT_FALSE(of(4).is_whole(joined(of(4), elements({0, 1, 2}))));
  EXPECT_FALSE(
      of(4, DType::kI32).is_whole(joined(of(4, DType::kI32), elements({0, 1, 3}, DType::kI32))));
}

TEST(Joining, ARankTwiceIsRefused) {
  EXPECT_THAT(refusal(of(3), elements({0, 1, 1})), HasSubstr("where rank 2's is next"));
  EXPECT_THAT(refusal(of(3), elements({0, 1, 2, 2})), HasSubstr("comes after all contributions"));
  const Joining integers = of(3, DType::kI64);
  EXPECT_THAT(refusal(integers, elements({0, 1, 1}, DType::kI64)),
              HasSubstr("are not one of each rank"));
  EXPECT_THAT(refusal(integers, elements({0, 1, 2, 2}, DType::kI64)),
              HasSubstr("makes it 4 contributions, where there are 3"));
}

TEST(Joining, IntegersJoinInAnyOrderAndAnyParts) {
  const Joining sum = of(5, DType::kI32);
  const Term left = joined(sum, elements({3, 0}, DType::kI32));
  const Term right = joined(sum, elements({4, 2, 1}, DType::kI32));
  EXPECT_TRUE(sum.is_whole(joined(sum, {right, left})));
}

TEST(Joining, AFloatingSumCutByWorkersIsRefused) {
  const Joining sum = of(4);
  const Term first = joined(sum, elements({0, 1}));
  Term second = joined(of(4, DType::kF32, {2}), elements({2, 3}));  // As a worker would have it.
  second.depth = 0;
  EXPECT_THAT(
      refusal(sum, {first, second}),
      HasSubstr(
          "input 1 joins contributions from rank 2's on already, which is not in rank order"));
  EXPECT_THAT(refusal(sum, elements({2, 3})), HasSubstr("begins with rank 2's contribution"));
}

// In blocks of 2 of 8, then in 2 of those: ((0 1) (2 3)) + ((4 5) (6 7)).
TEST(Joining, BlocksJoinWholeAndNestAsSaid) {
  const Joining sum = of(8, DType::kF32, {2, 2});
  const auto block = [&](uint32_t first) { return joined(sum, elements({first, first + 1})); };
  const Term left = joined(sum, {block(0), block(2)}), right = joined(sum, {block(4), block(6)});
  EXPECT_TRUE(sum.is_whole(joined(sum, {left, right})));
  // The same, grown: a whole block is the first element of what it begins.
  EXPECT_TRUE(sum.is_whole(joined(sum, {joined(sum, {block(0), block(2)}), right})));
}

TEST(Joining, TwoBlocksJoinedAsOneAreRefused) {
  const Joining sum = of(8, DType::kF32, {4});
  EXPECT_THAT(refusal(sum, elements({0, 1, 2, 3, 4})),
              HasSubstr("input 4 is rank 4's contribution, of a block that is not whole"));
  EXPECT_THAT(refusal(sum, elements({2, 3, 4, 5})), HasSubstr("begins with rank 2's contribution"));
  const Term first = joined(sum, elements({0, 1, 2, 3}));
  EXPECT_THAT(refusal(sum, {first, element(4)}),
              HasSubstr("input 1 is rank 4's contribution, of a block that is not whole"));
  const Term part = joined(sum, elements({4, 5}));
  EXPECT_THAT(refusal(sum, {first, part}), HasSubstr("of a block that is not whole"));
  EXPECT_TRUE(sum.is_whole(joined(sum, {first, joined(sum, {part, element(6), element(7)})})));
}

// A ragged last block of one is that one.
TEST(Joining, ABlockOfOneIsItsElement) {
  const Joining sum = of(5, DType::kF32, {2});
  const Term two = joined(sum, {joined(sum, elements({0, 1})), joined(sum, elements({2, 3}))});
  EXPECT_TRUE(sum.is_whole(joined(sum, {two, element(4)})));
}

TEST(Joining, AverageAppliedTwiceIsRefused) {
  const Joining average = of(3, DType::kF32, {}, RedOp::kAvg);
  const Term once = joined(average, elements({0, 1, 2}));
  EXPECT_TRUE(average.is_whole(once));
  EXPECT_THAT(refusal(average, {once, once}), HasSubstr("input 0 is an avg already"));
  EXPECT_THAT(refusal(average, elements({0, 1})), HasSubstr("it averages 2 of 3 contributions"));
}

TEST(Joining, OfOneRankIsItsElement) {
  EXPECT_EQ(of(1).whole(), element(0));
  EXPECT_EQ(of(1, DType::kBF16).whole(), element(0, DType::kBF16));
}

// Whatever is joined by halves, thirds and singles: whole exactly where a left fold over whole
// blocks is.
TEST(Joining, RandomTreesOverIntegersAreWholeOnceAllAreIn) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t count = uint32_t(2 + random() % 12);
    const Joining sum = of(count, DType::kI32);
    std::vector<Term> pool;
    for (uint32_t rank = 0; rank < count; ++rank) pool.push_back(element(rank, DType::kI32));
    while (pool.size() > 1) {
      std::shuffle(pool.begin(), pool.end(), random);
      const size_t taken = 2 + random() % (pool.size() - 1);
      const Term made = joined(sum, {pool.begin(), pool.begin() + ptrdiff_t(taken)});
      EXPECT_EQ(sum.is_whole(made), taken == pool.size());
      pool.erase(pool.begin(), pool.begin() + ptrdiff_t(taken));
      pool.push_back(made);
    }
  }
}

}  // namespace
}  // namespace sk::effect
