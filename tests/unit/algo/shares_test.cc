// How queues share out vectors, and the plans in which they do: complete, even, and proven.
#include "lib/algo/shares.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing_support::op_desc;

constexpr OpKind kKinds[] = {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kReduceScatter,
                             OpKind::kBroadcast};

OpDesc op_of(OpKind kind, int64_t count, bool in_place, int32_t root = 1) {
  TextOp op{.kind = kind, .dtype = DType::kF32, .out_dtype = DType::kF32};
  op.in_place = in_place && kind != OpKind::kBroadcast;  // Which says nothing of it.
  op.symmetric_in = op.symmetric_out = true;
  op.count = count;
  if (kind == OpKind::kBroadcast) op.root = root;
  return op_desc(op);
}

// Bytes that a queue's tasks write.
uint64_t written(const RankPlan& part, const Queue& queue) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < queue.task_count; ++i) {
    for (const Region& region : part.regions_of(part.tasks[queue.first_task + i])) {
      if (region.access == kWrite) bytes += region.rows * region.row_bytes * region.buffer_count;
    }
  }
  return bytes;
}

TEST(Shares, EveryElementIsInOneOfThem) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t count = 1 + random() % 20'000;
    Target target{.world_size = 1 + uint32_t(random() % 16)};
    target.workers = 1 + uint32_t(random() % 9);
    target.queue_bytes_min = random() % 3 * 300;
    target.turn_bytes = random() % 3 * 100;
    if (random() % 2) target.edge_signals_max = 1 + uint32_t(random() % 8);
    const algo::Layout layout(op_of(OpKind::kAllreduce, int64_t(count), false), target);
    const uint32_t ranks = random() % 2 ? target.world_size : 1;
    const uint32_t lanes = 1 + uint32_t(random() % 2);
    const algo::Shares shares(layout, count, ranks, lanes);
    ASSERT_LE(shares.queues(), target.workers);
    ASSERT_TRUE(shares.queues() == 1 || shares.queues() * lanes <= target.edge_signals_max);
    std::vector<uint8_t> owners(count), owners_of_pieces(count);
    const auto add = [](const std::vector<algo::Share>& all, std::vector<uint8_t>& to) {
      for (const algo::Share& share : all) {
        for (uint32_t row = 0; row < share.rows; ++row) {
          for (uint64_t e = 0; e < share.count; ++e) ++to.at(share.begin + row * share.pitch + e);
        }
      }
    };
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (uint32_t queue = 0; queue < shares.queues(); ++queue) {
        ASSERT_EQ(shares.has(rank, queue), !shares.of(rank, queue).empty());
        ASSERT_LE(shares.pieces(rank, queue).size(), algo::Shares::kPiecesMax);
        add(shares.of(rank, queue), owners);
        add(shares.pieces(rank, queue), owners_of_pieces);
      }
    }
    ASSERT_EQ(owners, std::vector<uint8_t>(count, 1)) << count << " elements";
    ASSERT_EQ(owners_of_pieces, owners);
  }
}

struct World {
  uint32_t ranks, workers;
};

class Worlds : public testing::TestWithParam<World> {};

TEST_P(Worlds, PlansOfAllWorkersAreProven) {
  Target target{.world_size = GetParam().ranks, .workers = GetParam().workers};
  target.queue_bytes_min = 64;
  for (const OpKind kind : kKinds) {
    for (const bool in_place : {false, true}) {
      for (const uint64_t turn_bytes : {0, 64}) {
        for (const int64_t count : {5, 3000, 20'001}) {
          target.turn_bytes = turn_bytes;
          Result<Plan> plan = make_plan(op_of(kind, count, in_place), target);
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          const Status status = validate(*plan);
          ASSERT_TRUE(status.ok()) << status.message() << "\n" << dump(*plan).substr(0, 600);
          if (count < 3000) continue;
          for (const RankPlan& part : plan->ranks)
            EXPECT_EQ(part.queues.size(), std::min<uint64_t>(target.workers, count * 4 / 64));
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Some, Worlds,
                         testing::Values(World{2, 1}, World{2, 5}, World{3, 3}, World{5, 2},
                                         World{8, 4}, World{16, 3}),
                         [](const auto& is) {
                           return fmt::format("{}x{}", is.param.ranks, is.param.workers);
                         });

// As they are made for the blocks of a GPU: all of them work, and none much longer than others.
TEST(GpuShares, AreEven) {
  for (const World world :
       {World{1, 132}, World{2, 66}, World{4, 33}, World{8, 16}, World{16, 8}}) {
    Target target{.world_size = world.ranks, .workers = world.workers};
    target.queue_bytes_min = 8 << 10;
    target.turn_bytes = 32 << 10;
    for (const OpKind kind : kKinds) {
      for (const int64_t count : {int64_t(1) << 21, int64_t(1) << 25, 345'678'901l}) {
        const bool of_parts = kind == OpKind::kAllgather || kind == OpKind::kReduceScatter;
        const OpDesc op = op_of(kind, of_parts ? count / world.ranks : count, false, 0);
        Result<Plan> plan = make_plan(op, target);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        const Status status = validate(*plan);
        ASSERT_TRUE(status.ok()) << status.message();
        for (const RankPlan& part : plan->ranks) {
          ASSERT_EQ(part.queues.size(), world.workers);
          std::vector<uint64_t> bytes;
          for (const Queue& queue : part.queues) bytes.push_back(written(part, queue));
          const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t(0));
          for (const uint64_t each : bytes)
            EXPECT_LE(each * world.workers, all + all / 50) << dump(*plan).substr(0, 200);
        }
      }
    }
  }
}

// A rank of one worker has the plan it always had, whatever its share might be.
TEST(Shares, OneWorkerHasAll) {
  for (const OpKind kind : kKinds) {
    for (const bool in_place : {false, true}) {
      Target target{.world_size = 3};
      Result<Plan> plain = make_plan(op_of(kind, 5000, in_place), target);
      target.queue_bytes_min = target.turn_bytes = 64;
      Result<Plan> other = make_plan(op_of(kind, 5000, in_place), target);
      ASSERT_TRUE(plain.ok() && other.ok());
      other->target = plain->target;
      EXPECT_EQ(dump(*plain), dump(*other));
      for (const RankPlan& part : plain->ranks) EXPECT_EQ(part.queues.size(), 1u);
    }
  }
}

// Peers that follow the root of a broadcast piece by piece: what holds them back is needed.
class Following : public testing::Test {
 protected:
  Following() {
    Target target{.world_size = 3, .workers = 2};
    target.queue_bytes_min = target.turn_bytes = 64;
    plan_ = make_plan(op_of(OpKind::kBroadcast, 4000, false), target).value();
    EXPECT_TRUE(validate(plan_).ok());
  }
  // The last copy of the rank's first queue, which is the third piece or a later one.
  Task& last_copy(uint32_t rank) {
    RankPlan& part = plan_.ranks[rank];
    uint32_t last = 0, copies = 0;
    for (uint32_t i = 0; i < part.queues[0].task_count; ++i) {
      const uint32_t task = part.queues[0].first_task + i;
      if (part.tasks[task].op != TaskOp::kCopy) continue;
      last = task;
      ++copies;
    }
    EXPECT_GE(copies, 3u);
    return part.tasks[last];
  }
  std::string refusal() const { return validate(plan_).message(); }

  Plan plan_;
};

TEST_F(Following, APieceTooEarlyIsSeen) {
  Task& task = last_copy(0);
  --plan_.ranks[0].waits[task.first_wait].target;
  EXPECT_THAT(refusal(), HasSubstr("plan refused"));
}

TEST_F(Following, PostsOutOfOrderAreSeen) {
  for (Task& task : plan_.ranks[1].tasks) task.flags &= uint8_t(~kPostsInOrder);
  EXPECT_THAT(refusal(), HasSubstr("plan refused"));
}

TEST_F(Following, ARootThatDoesNotWaitForReadersIsSeen) {
  Task& task =
      plan_.ranks[1]
          .tasks[plan_.ranks[1].queues[0].first_task + plan_.ranks[1].queues[0].task_count - 1];
  ASSERT_EQ(task.op, TaskOp::kNop);
  task.wait_count = 0;
  EXPECT_THAT(refusal(), HasSubstr("plan refused"));
}

}  // namespace
}  // namespace sk
