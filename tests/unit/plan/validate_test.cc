// The validator: sound plans pass, and a plan that breaks one rule is refused under that rule.
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
  for (const int64_t chunks : {1, 3, 4, 5, 12, 50}) {
    for (uint32_t slots = 1; slots <= std::min<int64_t>(4, chunks); ++slots) {
      const Status status = validate(put_pipeline(chunks, slots));
      EXPECT_TRUE(status.ok()) << chunks << " chunks, " << slots << " slots: " << status.message();
    }
  }
}

// One edit of a valid plan's text, that breaks one rule only.
struct Mutation {
  const char* name;
  const char* base;
  std::vector<std::pair<std::string, std::string>> edits;  // First occurrence of each.
  const char* refusal;
};

Plan base_plan(const std::string& name) {
  if (name == "direct") return direct_allreduce(2, 10);
  if (name == "direct3") return direct_allreduce(3, 30);
  if (name == "staged") return staged_allreduce(3, 10);
  return put_pipeline(/*chunk_count=*/6, /*slots=*/2);
}

const Mutation kMutations[] = {
    {"TwoEnters", "direct", {{"  enter\n", "  enter\n  enter\n"}}, "rule 0: rank 0 has 2 enter"},
    {"NeverAwaits", "direct", {{"  await\n", ""}}, "rule 0: rank 0 has peers but never awaits"},
    {"OneSidedPeer", "direct", {{"rank 1 peers=0", "rank 1 peers=-"}}, "rule 0: rank 0 has peer 1"},
    {"UnknownFlag", "direct", {{"  await\n", "  await flags2\n"}}, "rule 0: rank 0 queue 0 task 1"},
    {"BadParameter",
     "direct",
     {{"hint=default", "hint=7"}},
     "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"MissingParameter", "direct", {{" hint=default", ""}}, "has 3 parameters, not 4"},
    {"BufferOutside", "direct", {{"b0..b1@", "b0..b9@"}}, "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"WriteForRead", "direct", {{"read=b0", "write=b0"}}, "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"MorePostsThanSaid", "direct", {{"s0+1", "s0+2"}}, "signal 0 gets 2 posts in a run"},
    {"WrongProducer", "direct", {{"post=r1.s0+1", "post=r1.s1+1"}}, "whose producer is rank 1"},
    {"TwoQueuesPost",
     "direct",
     {{"workers=1", "workers=2"},
      {"signal 0 from=0 posts=1\nsignal 1 from=1 posts=0\nqueue\n",
       "signal 0 from=0 posts=2\nsignal 1 from=1 posts=0\nqueue\n"},
      {"rank 1 peers", "queue\n  await\n  nop post=r1.s0+1\nrank 1 peers"}},
     "rule 0: rank 0 queue 1 task 1 (nop) posts signal 0 of rank 1, which queue 0 posts too"},
    {"WrongSizeOfOperand", "direct", {{"count=10", "count=11"}}, "has 40 bytes, not 44"},
    {"AverageOfIntegers",
     "direct",
     {{"dtype=f32 out_dtype=f32 redop=sum", "dtype=i32 out_dtype=i32 redop=avg"}},
     "averages are for floating types"},

    {"EachWaitsForTheOtherFirst",
     "direct",
     {{"  await\n  reduce", "  await\n  nop wait=s1>=1\n  reduce"},
      {"  await\n  reduce", "  await\n  nop wait=s0>=1\n  reduce"}},
     "rule a: rank 0 queue 0 task 2 (nop) waits for ever for 1 of signal 1"},
    {"WaitsForMoreThanComes",
     "direct",
     {{"s1>=1", "s1>=2"}},
     "rule a: rank 0 queue 0 task 3 (nop)"},

    {"MoreQueuesThanWorkers",
     "direct",
     {{"workers=1", "workers=0"}},
     "rule b: rank 0 has 1 queues"},

    {"EntersBeforeItsCopyIsDone",
     "staged",
     {{"enter after_all", "enter"}},
     "(reduce) reads bytes 0 to 39 of buffer 6, and nothing says that rank 0 queue 0 task 0 (copy) "
     "of "
     "run 0 has written"},
    {"StagingWithoutSecondCopy",
     "staged",
     {{"generations=2 owner=1", "generations=1 owner=1"}},
     "rule c: rank 1 queue 0 task 0 (copy) touches buffer 7 of rank 1 before it has awaited"},
    {"ReadsASlotBeforeItsSecondPut",
     "pipeline",
     {{"wait=s0>=2 post=r0.s0+1", "wait=s0>=1 post=r0.s0+1"}},
     "rule c: "},
    {"PutsWithoutCredit",
     "pipeline",
     {{"write=b2@0:64 wait=s0>=1 ", "write=b2@0:64 "}},
     "rule c: rank 0 queue 0 task 4 (put) writes bytes 0 to 63 of buffer 2"},
    {"OneCounterForPutsInFlight",
     "pipeline",
     {{"signal 0 from=0 posts=3\nsignal 1 from=0 posts=3",
       "signal 0 from=0 posts=6\nsignal 1 from=0 posts=0"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"write=b1@64:64 wait=s1>=1", "write=b1@64:64 wait=s0>=2"},
      {"write=b1@128:64 wait=s0>=2", "write=b1@128:64 wait=s0>=3"},
      {"write=b1@192:64 wait=s1>=2", "write=b1@192:64 wait=s0>=4"},
      {"write=b1@256:64 wait=s0>=3", "write=b1@256:64 wait=s0>=5"},
      {"write=b1@320:64 wait=s1>=3", "write=b1@320:64 wait=s0>=6"}},
     "come in any order, so that waits for a part of them tell nothing"},
    {"CallerLeavesWhilePeersRead",
     "direct3",
     {{" wait=s1>=1 wait=s2>=1", " wait=s2>=1"},
      {"signal 1 from=1 posts=1", "signal 1 from=1 posts=0"},
      {"post=r0.s1+1 ", ""}},
     "rule c: run 0 of rank 0 ends, and nothing says that rank 1 queue 0 task 2 (reduce) of run 0"},
    {"TouchesPeersBeforeAwait",
     "direct3",
     {{"  await\n  reduce", "  reduce"}, {"  nop wait", "  await\n  nop wait"}},
     "before it has awaited its peers"},
    {"WritesWhatItReads",
     "pipeline",
     {{"copy hint=default read=b2@0:64 write=b1@0:64",
       "copy hint=default read=b1@32:64 write=b1@0:64"}},
     "rule c: rank 1 queue 0 task 2 (copy): its regions 0 and 1 overlap in buffer 1"},

    {"LeavesItsBuffer",
     "direct",
     {{"b2..b3@20:20", "b2..b3@24:20"}},
     "rule d: rank 1 queue 0 task 2"},
    {"OffsetWraps",
     "direct",
     {{"b2..b3@20:20", "b2..b3@18446744073709551612:20"}},
     "rule d: rank 1 queue 0 task 2 (reduce)"},
    {"WorkspaceOverlaps",
     "staged",
     {{"rank 0 peers",
       "buffer 9 kind=workspace access=local operand=0 generations=2 owner=0 bytes=8 "
       "offset=0\nrank 0 peers"}},
     "rule d: buffers 9 and 6 of rank 0 overlap"},
    {"WorkspaceMisaligned",
     "pipeline",
     {{"bytes=128 offset=0", "bytes=128 offset=8"}},
     "rule d: buffer 2"},

    {"OtherReduction",
     "direct",
     {{"redop=sum hint", "redop=max hint"}},
     "rule e: rank 0 queue 0 task 2 (reduce): nothing is said of a max of in of rank 0"},
    {"OtherElements", "direct3", {{"read=b0..b2@40", "read=b0..b2@36"}}, "rule e: byte 40 of rank"},
    {"OtherType",
     "direct",
     {{"reduce dtype=f32 out_dtype=f32", "reduce dtype=i32 out_dtype=i32"}},
     "reads i32 as f32"},
    {"ContributionMissing",
     "staged",
     {{"read=b6..b8", "read=b6..b7"}},
     "rule e: byte 0 of rank 0's output (buffer 3) ends as the sum of in of ranks 0 to 1 as f32"},
    {"ContributionTwice",
     "staged",
     {{"read=b6..b8@0:40", "read=b6..b7@0:40 read=b7..b8@0:40"}},
     "rule e: rank 0 queue 0 task 3 (reduce): input 2 is rank 1's contribution, where rank 2's is "
     "next"},
    {"NotInRankOrder",
     "staged",
     {{"read=b6..b8@0:40", "read=b7@0:40 read=b6@0:40 read=b8@0:40"}},
     "rule e: rank 0 queue 0 task 3 (reduce): it begins with rank 1's contribution"},
    {"LastElementForgotten",
     "direct",
     {{"read=b0..b1@20:20 write=b2..b3@20:20", "read=b0..b1@20:16 write=b2..b3@20:16"}},
     "rule e: byte 36 of rank"},
    {"WrittenTwice",
     "pipeline",
     {{"  copy hint=default read=b2@0:64 write=b1@0:64 wait=s0>=1 post=r0.s0+1\n",
       "  copy hint=default read=b2@0:64 write=b1@0:64 wait=s0>=1\n  copy after_all hint=default "
       "read=b2@0:64 write=b1@0:64 post=r0.s0+1\n"}},
     "rule e: rank 1 queue 0 task 3 (copy) writes bytes of an output a second time"},

    {"LoadsWhereNothingIsMapped",
     "direct",
     {{"mapped=1", "mapped=0"}},
     "rule f: rank 0 queue 0 task 2"},
    {"NotSymmetric",
     "direct",
     {{"symmetric_in=1", "symmetric_in=0"}},
     "rule f: buffer 0 is mapped"},
    {"PutsIntoLocalMemory",
     "pipeline",
     {{"access=put", "access=local"}},
     "rule f: rank 0 queue 0 task 2"},
    {"PutTooLarge",
     "pipeline",
     {{"put_bytes_max=18446744073709551615", "put_bytes_max=63"}},
     "rule f: rank 0 queue 0 task 2 (put) moves 64 bytes, a put can 63"},
    {"PutWithoutPost",
     "pipeline",
     {{"put read=b0@0:64 write=b2@0:64 post=r1.s0+1", "put read=b0@0:64 write=b2@0:64"}},
     "rule f: rank 0 queue 0 task 2 (put) needs one post"},
    {"PutToItself",
     "pipeline",
     {{"write=b2@0:64 post", "write=b0@64:64 post"}},
     "rule f: rank 0 queue 0"},
    {"WritesAnInput",
     "staged",
     {{"write=b6@0:40", "write=b0@0:40"}},
     "rule f: rank 0 queue 0 task 0"},

    {"NobodyWaitsForTheLastPost",
     "direct",
     {{"  nop wait=s1>=1\n", ""}},
     "rule g: rank 0 signal 1"},
    {"PostsBeforeAwait",
     "direct",
     {{" post=r1.s0+1\n", "\n"}, {"  await\n", "  nop post=r1.s0+1\n  await\n"}},
     "rule g: rank 0 queue 0 task 1 (nop) posts to rank 1 before it has awaited its peers"},

    {"WorldTooLarge", "direct", {{"world_size=2", "world_size=5000"}}, "rule h: a world of 5000"},
};

TEST(Validate, EachMutationIsRefusedUnderItsRule) {
  for (const Mutation& mutation : kMutations) {
    SCOPED_TRACE(mutation.name);
    const Plan base = base_plan(mutation.base);
    const Status sound = validate(base);
    ASSERT_TRUE(sound.ok()) << sound.message();
    std::string text = dump(base);
    for (const auto& [from, to] : mutation.edits) {
      const size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << from << "\n" << text;
      text.replace(at, from.size(), to);
    }
    Result<Plan> plan = parse(text);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Status status = validate(plan.value());
    EXPECT_EQ(status.code(), SK_ERR_INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.message(), HasSubstr(mutation.refusal)) << text;
  }
}

// Rank 2 is done with rank 0's operands, and only rank 1 says so to rank 0: clocks that tell no
// more than what concerns the two ranks refuse it, the verdict must not.
TEST(Validate, NewsOfAThirdRankCount) {
  const auto relayed = [](const std::string& waits_of_rank_1) {
    std::string text = dump(direct_allreduce(3, 30));
    const std::pair<std::string, std::string> edits[] = {
        {"signal 1 from=1 posts=1\nsignal 2 from=2 posts=1",
         "signal 1 from=1 posts=2\nsignal 2 from=2 posts=0"},
        {"nop wait=s1>=1 wait=s2>=1", "nop wait=s1>=2"},
        {"nop wait=s0>=1 wait=s2>=1", waits_of_rank_1},
        {"post=r0.s2+1 ", ""}};
    for (const auto& [from, to] : edits) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from << "\n" << text;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    }
    Result<Plan> plan = parse(text);
    EXPECT_TRUE(plan.ok()) << plan.status().message() << "\n" << text;
    return plan.ok() ? validate(plan.value()) : Status();
  };
  const Status told = relayed("nop wait=s0>=1 wait=s2>=1 post=r0.s1+1");
  EXPECT_TRUE(told.ok()) << told.message();
  const Status untold = relayed("nop wait=s0>=1 post=r0.s1+1\n  nop wait=s2>=1");
  EXPECT_THAT(
      untold.message(),
      HasSubstr("rule c: rank 2 queue 0 task 2 (reduce) reads bytes 80 to 119 of buffer 0"));
}

// A broadcast through a buffer of rank 1, which ranks 0 and 2 touch without being peers. Rank 0's
// await then tells it of rank 2's last run only what rank 1 knows of it.
Plan broadcast_by_hub(bool hub_hears_of_reader) {
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
  plan.buffers.push_back({.access = BufferAccess::kMapped, .owner = 1, .bytes = kBytes});
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
  const Wait first{0, 1}, second{1, 1};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    RankBuilder part(rank, 1);
    part.set_peers(peers[rank]);
    part.add_signal(rank == 1 ? 0 : 1, 1);
    if (rank == 1 && hub_hears_of_reader) part.add_signal(2, 1);
    part.add({.op = TaskOp::kEnter});
    part.add({.op = TaskOp::kAwait});
    if (rank == 0) {
      const Post filled{1, 0, 1};
      copy(part, 0, kHub, {}, {&filled, 1});
      copy(part, 0, kOut, {}, {});
      part.add({.waits = {&first, 1}});
    } else if (rank == 1) {
      const Post read[] = {{0, 0, 1}, {2, 0, 1}};
      copy(part, kHub, kOut + 1, {&first, 1}, read);
      if (hub_hears_of_reader) part.add({.waits = {&second, 1}});
    } else {
      const Post done{1, 1, 1};
      copy(part, kHub, kOut + 2, {&first, 1}, {&done, hub_hears_of_reader ? size_t(1) : 0});
    }
    plan.ranks.push_back(part.finish());
  }
  return plan;
}

TEST(Validate, TheNextRunOfRanksThatAreNoPeersIsJudgedToo) {
  const Status heard = validate(broadcast_by_hub(true));
  EXPECT_TRUE(heard.ok()) << heard.message();
  EXPECT_THAT(
      validate(broadcast_by_hub(false)).message(),
      HasSubstr("rule c: rank 0 queue 0 task 2 (copy) writes bytes 0 to 63 of buffer 6, and "
                "nothing says that rank 2 queue 0 task 2 (copy) of run 0 has read them"));
}

TEST(Validate, TooManySignalsAreRefusedUnderRuleH) {
  Plan plan = direct_allreduce(2, 10);
  RankPlan& part = plan.ranks[1];
  part.signal_count = 4097;
  part.posts_per_run.resize(part.signal_count, 0);
  part.signal_producers.resize(part.signal_count, 0);
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule h: rank 1 has 4097 signals"));
}

TEST(Validate, TablesThatDoNotFitAreRefused) {
  Plan plan = direct_allreduce(2, 10);
  plan.ranks[0].tasks[2].first_region = UINT32_MAX;
  EXPECT_THAT(validate(plan).message(), HasSubstr("points outside the side tables"));
  plan = direct_allreduce(2, 10);
  plan.ranks[1].posts_per_run.pop_back();
  EXPECT_THAT(validate(plan).message(), HasSubstr("rule 0: rank 1 has 2 signals, but tables of 1"));
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
