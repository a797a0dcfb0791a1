// The validator: sound plans pass; and cases that no one edit of a text makes.
#include "lib/plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/plan/builder.h"
#include "lib/plan/text.h"
#include "tests/support/op_words.h"
#include "tests/support/plans.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

TEST(Validate, HandMadePlansPass) {
  for (uint32_t ranks = 1; ranks <= 5; ++ranks) {
    for (const int64_t count : {5, 17, 100}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
        const Status status = validate(direct_allreduce(ranks, count, dtype, RedOp::kMax));
        EXPECT_TRUE(status.ok()) << status.message();
      }
      const Status status = validate(staged_allreduce(ranks, count));
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  for (const uint32_t pieces : {1u, 2u, 9u}) {
    const Status status = validate(counted_pieces(pieces));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  for (const int64_t chunks : {1, 3, 4, 5, 12, 50}) {
    for (uint32_t slots = 1; slots <= std::min<int64_t>(4, chunks); ++slots) {
      const Status status = validate(put_pipeline(chunks, slots));
      EXPECT_TRUE(status.ok()) << chunks << " chunks, " << slots << " slots: " << status.message();
    }
  }
}

// The last piece may be counted before any other, so each wait is for one more than it needs. That
// is enough, and the validator knows it.
TEST(Validate, OnePostOutOfOrderCostsOnePieceMore) {
  constexpr uint32_t kPieces = 4;
  Plan plan = counted_pieces(kPieces);
  EXPECT_TRUE(validate(plan).ok()) << validate(plan).message();
  RankPlan &source = plan.ranks[0], &sink = plan.ranks[1];
  for (Task& task : source.tasks)
    if (task.first_post + 1 == kPieces && task.post_count > 0)
      task.flags &= uint8_t(~kPostsInOrder);
  EXPECT_FALSE(validate(plan).ok());
  for (Wait& wait : sink.waits) wait.target = std::min(wait.target + 1, kPieces);
  EXPECT_TRUE(validate(plan).ok()) << validate(plan).message();
}

// Rank 2 is done with rank 0's operands, and only rank 1 says so to rank 0: clocks that tell no
// more than what concerns the two ranks refuse it, the verdict must not.
TEST(Validate, NewsOfAThirdRankCount) {
  const auto relayed = [](const std::string& waits_of_rank_1) {
    std::string text = dump(direct_allreduce(3, 30));
    const std::pair<std::string, std::string> edits[] = {
        {"signal r1.s0 posts=1\nsignal r2.s0 posts=1", "signal r1.s0 posts=2"},
        {"nop wait=r1.s0>=1 wait=r2.s0>=1", "nop wait=r1.s0>=2"},
        {"nop wait=r0.s0>=1 wait=r2.s0>=1", waits_of_rank_1},
        {"post=r0.s0+1 post=r1.s0+1", "post=r1.s0+1"}};
    for (const auto& [from, to] : edits) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from << "\n" << text;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    }
    Result<Plan> plan = parse(text);
    EXPECT_TRUE(plan.ok()) << plan.status().message() << "\n" << text;
    return plan.ok() ? validate(plan.value()) : Status();
  };
  const Status told = relayed("nop wait=r0.s0>=1 wait=r2.s0>=1 post=r0.s0+1");
  EXPECT_TRUE(told.ok()) << told.message();
  const Status untold = relayed("nop wait=r0.s0>=1 post=r0.s0+1\n  nop wait=r2.s0>=1");
  EXPECT_THAT(
      untold.message(),
      HasSubstr("rule c: rank 2 queue 0 task 2 (reduce) reads bytes 80 to 119 of buffer 0"));
}

// A broadcast through a buffer of rank 1, which ranks 0 and 2 touch without being peers. Rank 0's
// await then tells it of rank 2's last run only what rank 1 knows of it.
Plan broadcast_by_hub(bool hub_hears_of_reader, uint8_t generations) {
  constexpr uint64_t kBytes = 64;
  constexpr uint32_t kOut = 3, kHub = 6;  // Buffers: inputs by rank, outputs by rank, the hub's.
  Plan plan;
  plan.op = testing_support::op_desc({.kind = OpKind::kBroadcast, .count = kBytes / 4});
  plan.target.world_size = 3;
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kOutput}) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      plan.buffers.push_back({.kind = kind,
                              .operand = uint8_t(kind == BufferKind::kOutput),
                              .owner = rank,
                              .bytes = kBytes});
    }
  }
  plan.buffers.push_back(
      {.access = BufferAccess::kMapped, .generations = generations, .owner = 1, .bytes = kBytes});
  const int64_t hint[] = {kStoreDefault};
  const auto copy = [&](RankBuilder& part, uint32_t from, uint32_t to, std::span<const Wait> waits,
                        std::span<const Post> posts) {
    part.add({.op = TaskOp::kCopy,
              .regions = {flat(from, 0, kBytes, kRead), flat(to, 0, kBytes, kWrite)},
              .params = hint,
              .waits = waits,
              .posts = posts});
  };
  const std::vector<uint32_t> peers[] = {{1}, {0, 2}, {1}};
  const Wait of_writer{0, 0, 1}, of_hub{1, 0, 1}, of_reader{2, 0, 1};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    RankBuilder part(rank, 1);
    part.set_peers(peers[rank]);
    part.add_signal({rank == 1 ? 0u : 1u, 0, 1});
    if (rank == 1 && hub_hears_of_reader) part.add_signal({2, 0, 1});
    part.add({.op = TaskOp::kEnter});
    part.add({.op = TaskOp::kAwait});
    if (rank == 0) {
      const Post filled{1, 0, 1};
      copy(part, 0, kHub, {}, {&filled, 1});
      copy(part, 0, kOut, {}, {});
      part.add({.waits = {&of_hub, 1}});
    } else if (rank == 1) {
      const Post read[] = {{0, 0, 1}, {2, 0, 1}};
      copy(part, kHub, kOut + 1, {&of_writer, 1}, read);
      if (hub_hears_of_reader) part.add({.waits = {&of_reader, 1}});
    } else {
      const Post done{1, 0, 1};
      copy(part, kHub, kOut + 2, {&of_hub, 1}, {&done, hub_hears_of_reader ? size_t(1) : 0});
    }
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

// Rank 1's next call may be a message, which awaits one rank alone and uses the same workspace.
TEST(Validate, ARankEndsOnceAllAreDoneWithItsWorkspace) {
  const Status heard = validate(broadcast_by_hub(true, 1));
  EXPECT_TRUE(heard.ok()) << heard.message();
  EXPECT_THAT(validate(broadcast_by_hub(false, 1)).message(),
              HasSubstr("rule c: rank 2 queue 0 task 2 (copy) reads bytes 0 to 63 of buffer 6, and "
                        "nothing says that another plan, which rank 1 may run before run 1, has "
                        "written them before"));
  // No message stages, and two runs on, rank 0 knows by way of rank 1 that rank 2 has begun
  // another.
  const Status staged = validate(broadcast_by_hub(false, 2));
  EXPECT_TRUE(staged.ok()) << staged.message();
}

TEST(Validate, TooManySignalsAreRefusedUnderRuleH) {
  Plan plan = direct_allreduce(2, 10);
  plan.ranks[1].signals.push_back({0, 4096, 1});
  EXPECT_THAT(validate(plan).message(),
              HasSubstr("rule h: rank 1 signal 4096 from rank 0 is not below 4096"));
}

TEST(Validate, TablesThatDoNotFitAreRefused) {
  Plan plan = direct_allreduce(2, 10);
  plan.ranks[0].tasks[2].first_region = UINT32_MAX;
  EXPECT_THAT(validate(plan).message(), HasSubstr("points outside the side tables"));
  plan = direct_allreduce(2, 10);
  plan.ranks[1].queues[0].task_count = 3;
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule 0: rank 1 has 1 tasks in no queue"));
  plan.ranks.pop_back();
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule 0: 1 ranks' parts, world size 2"));
}

// Walked row by row it took 42 s a rank.
TEST(Validate, RowsSideBySideAreJudgedAsOne) {
  Plan plan;
  plan.op = op_desc({.kind = OpKind::kAllreduceGemm,
                     .pack_b = true,
                     .m = UINT32_MAX,
                     .n = 1,
                     .k = 1,
                     .lda = 1,
                     .ldb = 1,
                     .ldc = 1});
  plan.target = {.world_size = 1};
  plan.buffers = {{.kind = BufferKind::kInput, .bytes = uint64_t{UINT32_MAX} * 4}};
  RankBuilder part(0, 1);
  part.add({.op = TaskOp::kNop});
  plan.ranks.push_back(part.finish());
  EXPECT_THAT(validate(plan).message(), HasSubstr("the output of rank 0 is in no buffer"));
}

// What is kept is bounded, not only what is done.
TEST(Validate, ManySmallRowsAreTooMany) {
  constexpr uint32_t kRows = 100'000'000;
  Plan plan;
  plan.op = op_desc({.kind = OpKind::kAllreduce, .count = int64_t{kRows} * 2});
  plan.target = {.world_size = 1};
  const uint64_t bytes = uint64_t{kRows} * 8;
  plan.buffers = {{.kind = BufferKind::kInput, .operand = 0, .bytes = bytes},
                  {.kind = BufferKind::kOutput, .operand = 1, .bytes = bytes}};
  RankBuilder part(0, 1);
  const int64_t hint[] = {kStoreDefault};
  part.add({.op = TaskOp::kCopy,
            .regions = {Region{0, 4, 8, kRows, 0, 1, kRead}, Region{0, 4, 8, kRows, 1, 1, kWrite}},
            .params = hint});
  plan.ranks.push_back(part.finish());
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule h: too tangled"));
}

}  // namespace
}  // namespace sk
