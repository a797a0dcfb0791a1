// The validator: a plan whose text breaks one rule is refused under that rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/plans.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

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
  if (name == "counted") return counted_pieces(4);
  return put_pipeline(/*chunk_count=*/6, /*slots=*/2);
}

const Mutation kMutations[] = {
    {"TwoEnters", "direct", {{"  enter\n", "  enter\n  enter\n"}}, "rule 0: rank 0 has 2 enter"},
    {"NeverAwaits", "direct", {{"  await\n", ""}}, "rule 0: rank 0 has peers but never awaits"},
    {"AwaitsASignal",
     "direct",
     {{"  await\n", "  await wait=r1.s0>=1\n"}},
     "rule 0: rank 0: an await waits for peers' entries, not for signals"},
    {"AwaitsElsewhere",
     "direct",
     {{"workers=1", "workers=2"},
      {"  await\n", ""},
      {"rank 1 peers", "queue\n  await\nrank 1 peers"}},
     "rule 0: rank 0 awaits its peers, but not in its first queue"},
    {"EntersElsewhere",
     "direct",
     {{"workers=1", "workers=2"},
      {"  enter\n", ""},
      {"rank 1 peers", "queue\n  enter\nrank 1 peers"}},
     "rule 0: rank 0 enters, but not in its first queue"},
    {"OneSidedPeer", "direct", {{"rank 1 peers=0", "rank 1 peers=-"}}, "rule 0: rank 0 has peer 1"},
    {"UnknownFlag", "direct", {{"  await\n", "  await flags2\n"}}, "rule 0: rank 0 queue 0 task 1"},
    {"OrderWithoutPosts",
     "direct",
     {{"  await\n", "  await posts_in_order\n"}},
     "rule 0: rank 0 queue 0 task 1 (await) has its posts in order: it has none"},
    {"OrderOfAPut",
     "pipeline",
     {{"  put ", "  put posts_in_order "}},
     "rule 0: rank 0 queue 0 task 2 (put) has its posts in order: a put's travel with its bytes"},
    {"OrderTwice",
     "counted",
     {{"copy posts_in_order", "copy after_all posts_in_order"}},
     "rule 0: rank 0 queue 0 task 2 (copy) has its posts in order: those of a task that is "
     "after_all are so"},
    {"BadParameter",
     "direct",
     {{"hint=default", "hint=7"}},
     "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"MissingParameter", "direct", {{" hint=default", ""}}, "has 3 parameters, not 4"},
    {"BufferOutside", "direct", {{"b0..b1@", "b0..b9@"}}, "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"WriteForRead", "direct", {{"read=b0", "write=b0"}}, "rule 0: rank 0 queue 0 task 2 (reduce"},
    {"MorePostsThanSaid",
     "direct",
     {{"s0+1", "s0+2"}},
     "signal 0 from rank 0 gets 2 posts in a run"},
    {"PostsNoSignal",
     "direct",
     {{"post=r1.s0+1", "post=r1.s1+1"}},
     "posts signal 1 to rank 1, which is none"},
    {"PostsOutside",
     "direct",
     {{"post=r1.s0+1", "post=r2.s0+1"}},
     "posts to rank 2, which is no peer"},
    {"WaitsForNoSignal",
     "direct",
     {{"wait=r1.s0>=1", "wait=r1.s1>=1"}},
     "waits for signal 1 from rank 1, which is none"},
    {"WaitsForNothing", "direct", {{"r1.s0>=1", "r1.s0>=0"}}, "waits for nothing of signal 0"},
    {"ASignalFromOutside",
     "direct",
     {{"signal r1.s0", "signal r2.s0"}},
     "rule 0: rank 0 signal 0 from rank 2 comes from no rank of 2"},
    {"ASignalThatGetsNothing",
     "direct",
     {{"signal r1.s0 posts=1", "signal r1.s0 posts=0"}},
     "rule 0: rank 0 signal 0 from rank 1 gets no posts"},
    {"SignalsOutOfOrder",
     "direct3",
     {{"signal r1.s0 posts=1\nsignal r2.s0 posts=1", "signal r2.s0 posts=1\nsignal r1.s0 posts=1"}},
     "rule 0: rank 0 signal 0 from rank 1 stands behind signal 0 from rank 2"},
    {"ASignalTwice",
     "direct",
     {{"signal r1.s0 posts=1\n", "signal r1.s0 posts=1\nsignal r1.s0 posts=1\n"}},
     "rule 0: rank 0 signal 0 from rank 1 stands behind signal 0 from rank 1"},
    {"TwoQueuesPost",
     "direct",
     {{"workers=1", "workers=2"},
      {"signal r0.s0 posts=1", "signal r0.s0 posts=2"},
      {"rank 1 peers", "queue\n  await\n  nop post=r1.s0+1\nrank 1 peers"}},
     "rule 0: rank 0 queue 1 task 1 (nop) posts signal 0 to rank 1, which queue 0 posts too"},
    {"WrongSizeOfOperand", "direct", {{"count=10", "count=11"}}, "has 40 bytes, not 44"},
    {"AverageOfIntegers",
     "direct",
     {{"op=sum in.dtype=f32", "op=avg in.dtype=i32"}, {"out.dtype=f32", "out.dtype=i32"}},
     "averages are for floating types"},

    {"EachWaitsForTheOtherFirst",
     "direct",
     {{"  await\n  reduce", "  await\n  nop wait=r1.s0>=1\n  reduce"},
      {"  await\n  reduce", "  await\n  nop wait=r0.s0>=1\n  reduce"}},
     "rule a: rank 0 queue 0 task 2 (nop) waits for ever for 1 of signal 0 from rank 1"},
    {"WaitsForMoreThanComes",
     "direct",
     {{"r1.s0>=1", "r1.s0>=2"}},
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
     {{"wait=r0.s0>=2 post=r0.s0+1", "wait=r0.s0>=1 post=r0.s0+1"}},
     "rule c: "},
    {"PutsWithoutCredit",
     "pipeline",
     {{"write=b2@0:64 wait=r1.s0>=1 ", "write=b2@0:64 "}},
     "rule c: rank 0 queue 0 task 4 (put) writes bytes 0 to 63 of buffer 2"},
    {"OneCounterForPutsInFlight",
     "pipeline",
     {{"signal r0.s0 posts=3\nsignal r0.s1 posts=3", "signal r0.s0 posts=6"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"post=r1.s1+1", "post=r1.s0+1"},
      {"write=b1@64:64 wait=r0.s1>=1", "write=b1@64:64 wait=r0.s0>=2"},
      {"write=b1@128:64 wait=r0.s0>=2", "write=b1@128:64 wait=r0.s0>=3"},
      {"write=b1@192:64 wait=r0.s1>=2", "write=b1@192:64 wait=r0.s0>=4"},
      {"write=b1@256:64 wait=r0.s0>=3", "write=b1@256:64 wait=r0.s0>=5"},
      {"write=b1@320:64 wait=r0.s1>=3", "write=b1@320:64 wait=r0.s0>=6"}},
     "come in any order, so that waits for a part of them tell nothing"},
    {"CountsPiecesThatComeInAnyOrder",
     "counted",
     {{"posts_in_order hint=default read=b0@64", "hint=default read=b0@64"}},
     "rule c: rank 1 queue 0 task 2 (copy) reads bytes 0 to 63 of buffer 2, and nothing says that "
     "rank 0 queue 0 task 2 (copy) of run 0 has written them before (posts of some signals come in "
     "any order"},
    {"CountsOnALastPieceInAnyOrder",
     "counted",
     {{"posts_in_order hint=default read=b0@192", "hint=default read=b0@192"}},
     "rule c: rank 1 queue 0 task 2 (copy) reads bytes 0 to 63 of buffer 2"},
    {"StartsAsIfItsPostsInOrderHeldItBack",
     "counted",
     {{"read=b0@64:64", "read=b2@0:64"}},
     "rule c: rank 0 queue 0 task 3 (copy) reads bytes 0 to 63 of buffer 2, and nothing says that "
     "rank 0 queue 0 task 2 (copy) of run 0 has written them before"},
    {"TellsOfOnePieceOnly",
     "counted",
     {{"posts_in_order hint=default read=b2@192:64 write=b1@192:64",
       "hint=default read=b2@192:64 write=b1@192:64"}},
     "rule c: run 0 of rank 0 ends, and nothing says that rank 1 queue 0 task 2 (copy) of run 0 "},
    {"CallerLeavesWhilePeersRead",
     "direct3",
     {{" wait=r1.s0>=1 wait=r2.s0>=1", " wait=r2.s0>=1"},
      {"signal r1.s0 posts=1\n", ""},
      {"post=r0.s0+1 ", ""}},
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
     "reads f32 as i32"},
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
     {{"  copy hint=default read=b2@0:64 write=b1@0:64 wait=r0.s0>=1 post=r0.s0+1\n",
       "  copy hint=default read=b2@0:64 write=b1@0:64 wait=r0.s0>=1\n  copy after_all "
       "hint=default "
       "read=b2@0:64 write=b1@0:64 post=r0.s0+1\n"}},
     "rule e: rank 1 queue 0 task 3 (copy) writes bytes of an output a second time"},

    {"LoadsWhereNothingIsMapped",
     "direct",
     {{"mapped=1", "mapped=0"}},
     "rule f: rank 0 queue 0 task 2"},
    {"NotSymmetric",
     "direct",
     {{"in.symmetric=1", "in.symmetric=0"}},
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
     {{"  nop wait=r1.s0>=1\n", ""}},
     "rule g: rank 0 signal 0 from rank 1"},
    {"PostsBeforeAwait",
     "direct",
     {{" post=r1.s0+1\n", "\n"}, {"  await\n", "  nop post=r1.s0+1\n  await\n"}},
     "rule g: rank 0 queue 0 task 1 (nop) posts to rank 1 before it has awaited its peers"},

    {"HostsOfFewerRanks",
     "direct",
     {{"edge_signals_max=4294967295", "edge_signals_max=4294967295 host_of=0"}},
     "rule 0: the hosts of 1 ranks are given, in a world of 2"},
    {"HostOfNoRank",
     "direct",
     {{"edge_signals_max=4294967295", "edge_signals_max=4294967295 host_of=1,1"}},
     "rule 0: rank 0 has host 1, which is not the least rank of a host"},
    {"OneHost",
     "direct",
     {{"edge_signals_max=4294967295", "edge_signals_max=4294967295 host_of=0,0"}},
     "rule 0: hosts are given, and all ranks share one"},

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

}  // namespace
}  // namespace sk
