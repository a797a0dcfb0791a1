// Parts made by hand, each of which looks sound among ends that do as they should, of worlds that
// are not: what their ranks wait for goes round in a circle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "lib/algo/planner.h"
#include "lib/plan/builder.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

using testing::HasSubstr;
using namespace testing_support;

// The first rank's refusal, or OK.
Status all_parts(const Plan& world, const FlowsOf& flows) {
  for (const RankPlan& part : world.ranks) {
    Status status = validate_part(part_of(world, part.rank), flows);
    if (!status.ok()) return status;
  }
  return {};
}

TEST(Parts, ThatAllWaitForTheOthersToEnterAreRefused) {
  const OpDesc op = op_desc({.kind = OpKind::kBarrier});
  const Target target{.world_size = 3, .mapped = false};
  Plan world = make_plan(op, target).value();
  const FlowsOf none = [](uint32_t) { return std::vector<Flow>(); };
  ASSERT_TRUE(all_parts(world, none).ok());
  for (RankPlan& part : world.ranks) std::swap(part.tasks[0], part.tasks[1]);
  EXPECT_THAT(validate(world).message(), HasSubstr("rule a"));
  EXPECT_THAT(all_parts(world, none).message(), HasSubstr("enters behind a wait for others"));
}

// Two ranks, each of whose first queue awaits its peers behind the other's chunk, and whose second
// queue puts its own chunk behind that await.
TEST(Parts, WhoseQueuesAdmitEachOtherInACircleAreRefused) {
  const OpDesc op = op_desc({.kind = OpKind::kAllgather, .count = 16});
  Plan world{.op = op,
             .target = {.world_size = 2, .mapped = false, .workers = 2},
             .buffers = {},
             .ranks = {}};
  for (const auto& [kind, operand, bytes] : {std::tuple(BufferKind::kInput, 0, 64),
                                             {BufferKind::kOutput, 1, 128},
                                             {BufferKind::kWorkspace, 0, 64}}) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const bool workspace = kind == BufferKind::kWorkspace;
      world.buffers.push_back({.kind = kind,
                               .access = workspace ? BufferAccess::kPutOnly : BufferAccess::kLocal,
                               .operand = uint8_t(operand),
                               .owner = rank,
                               .bytes = uint64_t(bytes)});
    }
  }
  const int64_t hint = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    RankBuilder part(rank, 2);
    part.add_signal({1 - rank, 0, 1});
    part.set_peers({1 - rank});
    const Wait wait{1 - rank, 0, 1};
    const Post post{1 - rank, 0, 1};
    part.add({.op = TaskOp::kEnter});
    part.add({.waits = {&wait, 1}});
    part.add({.op = TaskOp::kAwait});
    for (const uint32_t of : {0u, 1u}) {
      const Region from = of == rank ? flat(rank, 0, 64, kRead) : flat(4 + rank, 0, 64, kRead);
      part.add({.op = TaskOp::kCopy,
                .regions = {from, flat(2 + rank, of * 64, 64, kWrite)},
                .params = {&hint, 1}});
    }
    part.add({.op = TaskOp::kAwait, .queue = 1});
    part.add({.op = TaskOp::kPut,
              .queue = 1,
              .regions = {flat(rank, 0, 64, kRead), flat(4 + (1 - rank), 0, 64, kWrite)},
              .posts = {&post, 1}});
    world.ranks.push_back(part.finish());
  }
  const FlowsOf flows = [](uint32_t) {
    std::vector<Flow> all;
    for (const uint32_t from : {0u, 1u}) {
      const Content input{.operand = 0, .first = from, .last = from + 1, .columns = 16};
      all.push_back({.from = from,
                     .to = 1 - from,
                     .inbox = 4 + (1 - from),
                     .slots = 1,
                     .slot_bytes = 64,
                     .data = 0,
                     .credit = 1,
                     .chunks = {{.bytes = 64, .content = input, .sent = 0, .taken = 9}}});
    }
    return all;
  };
  EXPECT_THAT(validate(world).message(), HasSubstr("rule a"));
  EXPECT_THAT(all_parts(world, flows).message(), HasSubstr("follows a wait for step 0"));
}

TEST(Parts, MeetAllOthersAndNobodyElse) {
  const OpDesc op = op_desc({.kind = OpKind::kBarrier});
  Plan world = make_plan(op, {.world_size = 3, .mapped = false}).value();
  const FlowsOf none = [](uint32_t) { return std::vector<Flow>(); };
  for (const std::vector<uint32_t>& peers :
       {std::vector<uint32_t>{1, 1}, {0, 1}, {7, 9}, {2, 1}, {1}, {}}) {
    world.ranks[0].peers = peers;
    EXPECT_THAT(validate_part(part_of(world, 0), none).message(),
                HasSubstr("rank 0 does not meet all 3 ranks"));
  }
}

// Every rank waits for the one before it, round in a circle. No part by itself shows that.
TEST(Parts, ThatWaitInACircleAreRefusedByTheirSteps) {
  constexpr uint32_t kRanks = 3;
  const OpDesc op = op_desc({.kind = OpKind::kAllreduce, .count = 16});
  Plan world{
      .op = op, .target = {.world_size = kRanks, .mapped = false}, .buffers = {}, .ranks = {}};
  const auto add = [&](BufferKind kind, BufferAccess access, uint8_t operand, uint64_t offset) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      world.buffers.push_back({.kind = kind,
                               .access = access,
                               .operand = operand,
                               .owner = rank,
                               .bytes = 64,
                               .offset = offset});
    }
  };
  add(BufferKind::kInput, BufferAccess::kLocal, 0, 0);
  add(BufferKind::kOutput, BufferAccess::kLocal, 1, 0);
  add(BufferKind::kWorkspace, BufferAccess::kPutOnly, 0, 0);
  const auto flow = [](uint32_t from, uint64_t sent) {
    const uint32_t to = (from + 1) % kRanks;
    const Content input{.operand = 0, .first = from, .last = from + 1, .columns = 16};
    return Flow{.from = from,
                .to = to,
                .inbox = 2 * kRanks + to,
                .slots = 1,
                .slot_bytes = 64,
                .data = 0,
                .credit = 1,
                .chunks = {{.bytes = 64, .content = input, .sent = sent, .taken = sent + 1}}};
  };
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const uint32_t before = (rank + kRanks - 1) % kRanks, next = (rank + 1) % kRanks;
    RankBuilder part(rank, 1);
    part.add_signal({before, 0, 1});
    std::vector<uint32_t> peers;
    for (uint32_t peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) peers.push_back(peer);
    }
    part.set_peers(peers);
    part.add({.op = TaskOp::kEnter});
    part.add({.op = TaskOp::kAwait});
    const Wait wait{before, 0, 1};
    const Post post{next, 0, 1};
    part.add({.op = TaskOp::kPut,
              .regions = {flat(rank, 0, 64, kRead), flat(2 * kRanks + next, 0, 64, kWrite)},
              .waits = {&wait, 1},
              .posts = {&post, 1}});
    world.ranks.push_back(part.finish());
  }
  EXPECT_THAT(validate(world).message(), HasSubstr("rule a"));
  for (const std::array<uint64_t, kRanks> sent :
       {std::array<uint64_t, kRanks>{1, 2, 3}, {3, 2, 1}, {1, 1, 1}}) {
    const FlowsOf flows = [&](uint32_t rank) {
      const uint32_t before = (rank + kRanks - 1) % kRanks;
      return std::vector<Flow>{flow(before, sent[before]), flow(rank, sent[rank])};
    };
    std::string messages;  // Each part refuses its result, too: nothing makes it.
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      messages += validate_part(part_of(world, rank), flows).message() + "\n";
    }
    EXPECT_THAT(messages, HasSubstr("follows a wait for step"));
  }
}

}  // namespace
}  // namespace sk
