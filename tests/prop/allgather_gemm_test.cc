// All-gather, then GEMM: its plans in every form, and the bugs that a planner of it could have,
// each of which the validator must see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <utility>

#include "lib/algo/planner.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

struct Form {
  const char* name;
  bool mapped, symmetric;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
constexpr Form kForms[] = {{"direct", true, true}, {"staged", true, false}, {"puts", false, false}};

class AllgatherGemm : public testing::TestWithParam<Form> {
 protected:
  // Several chunks, rows of tiles, queues and ranks.
  static Case case_of(uint32_t ranks, std::mt19937_64& random) {
    Case c;
    TextOp op{.kind = OpKind::kAllgatherGemm, .symmetric_in = GetParam().symmetric};
    op.m = 9 + int64_t(random() % 40);
    op.n = 1 + int64_t(random() % 20);
    op.k = 1 + int64_t(random() % 9);
    op.transpose_a = random() % 3 == 0;
    op.pack_b = random() % 2;
    op.lda = (op.transpose_a ? op.m : op.k) + int64_t(random() % 2);
    op.ldb = op.pack_b ? op.n : 0;
    op.ldc = op.n + int64_t(random() % 2 * 3);
    c.target.world_size = ranks;
    c.target.mapped = GetParam().mapped;
    c.target.workers = uint32_t(1 + random() % 4);
    c.target.tile_m = 8;
    c.target.tile_n = 16;
    c.target.packed_bytes = uint64_t(op.n * op.k) * sizeof(float);
    c.target.put_bytes_max = random() % 2 ? UINT64_MAX : 128;
    // From what a plan needs at least on.
    c.target.edge_signals_max = random() % 2 ? UINT32_MAX : uint32_t(3 + random() % 8);
    c.op = op_desc(op);
    return c;
  }
  static Plan plan_of(const Case& c) {
    Result<Plan> plan = make_plan(c.op, c.target);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    const Status sound = validate(plan.value());
    EXPECT_TRUE(sound.ok()) << sound.message();
    return std::move(plan.value());
  }
};

TEST_P(AllgatherGemm, ComputesWhatItSaysForEveryNumberOfRanks) {
  for (uint32_t ranks = 1; ranks <= 16; ++ranks) {
    std::mt19937_64 random(ranks);
    const Case c = case_of(ranks, random);
    SCOPED_TRACE(describe(c));
    const Plan plan = plan_of(c);
    for (const RankPlan& part : plan.ranks) {
      for (const Signal& signal : part.signals) ASSERT_LT(signal.number, c.target.edge_signals_max);
    }
    World world = random_world(plan, /*runs=*/2, random);
    const Status status = run_reference(plan, world, random());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(first_difference(plan, world), "");
  }
}

// What the validator spends grows with regions, not with the lines in them.
TEST_P(AllgatherGemm, LargeProductsAreJudged) {
  for (const bool turned : {false, true}) {
    TextOp op{.kind = OpKind::kAllgatherGemm, .symmetric_in = GetParam().symmetric};
    op.transpose_a = turned;
    op.pack_b = true;
    op.m = 4095;
    op.n = op.ldb = op.ldc = op.k = 4000;
    op.lda = turned ? op.m + 3 : op.k + 3;
    Target target{.world_size = 4, .mapped = GetParam().mapped, .workers = 4};
    target.tile_m = 256;
    target.tile_n = 512;
    target.put_bytes_max = 1 << 20;
    target.packed_bytes = uint64_t(op.n * op.k) * sizeof(float);
    const Result<Plan> plan = make_plan(op_desc(op), target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Status status = validate(plan.value());
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

// One after the other in all tiles of one plan: `plant` changes the task, or says that it cannot.
// What is no plan at all (rule 0) has seen no bug.
template <typename Plant>
int plant_in_each_tile(const Plan& plan, const Plant& plant, std::vector<std::string>& accepted) {
  int planted = 0;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (size_t i = 0; i < plan.ranks[rank].tasks.size(); ++i) {
      if (plan.ranks[rank].tasks[i].op != TaskOp::kGemm) continue;
      Plan wrong = plan;
      if (!plant(wrong, wrong.ranks[rank], wrong.ranks[rank].tasks[i])) continue;
      ++planted;
      const std::string said = validate(wrong).message();
      if (said.empty() || said.find("rule 0") != std::string::npos)
        accepted.push_back(fmt::format("rank {} task {}: {}", rank, i, said));
    }
  }
  return planted;
}

bool is_shard(const Plan& plan, const RankPlan& part, const Region& a) {
  const Buffer& buffer = plan.buffers[a.buffer];
  return buffer.owner != part.rank || buffer.kind == BufferKind::kWorkspace;
}

TEST_P(AllgatherGemm, ATileThatDoesNotWaitIsSeen) {
  std::mt19937_64 random(3);
  int planted = 0;
  std::vector<std::string> accepted;
  for (int round = 0; round < 4; ++round) {
    planted += plant_in_each_tile(
        plan_of(case_of(3, random)),
        [](Plan&, RankPlan&, Task& task) { return std::exchange(task.wait_count, 0) > 0; },
        accepted);
  }
  // What is mapped is there once its rank has entered: no tile waits for it.
  EXPECT_EQ(planted > 0, !GetParam().symmetric);
  EXPECT_THAT(accepted, testing::IsEmpty());
}

TEST_P(AllgatherGemm, RowsOneFurtherAreSeen) {
  std::mt19937_64 random(4);
  int planted = 0;
  std::vector<std::string> accepted;
  for (int round = 0; round < 4; ++round) {
    planted += plant_in_each_tile(
        plan_of(case_of(3, random)),
        [](Plan& plan, RankPlan& part, Task& task) {
          Region& a = part.regions[task.first_region];
          const uint64_t step = text_op(plan.op).transpose_a ? sizeof(float) : a.pitch;
          a.offset = a.offset >= step ? a.offset - step : a.offset + step;
          return true;
        },
        accepted);
  }
  EXPECT_GT(planted, 0);
  EXPECT_THAT(accepted, testing::IsEmpty());
}

TEST_P(AllgatherGemm, RowsOfAnotherRankAreSeen) {
  std::mt19937_64 random(5);
  int planted = 0;
  std::vector<std::string> accepted;
  for (int round = 0; round < 4; ++round) {
    planted += plant_in_each_tile(
        plan_of(case_of(3, random)),
        [](Plan& plan, RankPlan& part, Task& task) {
          Region& a = part.regions[task.first_region];
          if (!is_shard(plan, part, a)) return false;
          const uint32_t other = a.buffer > 0 ? a.buffer - 1 : a.buffer + 1;
          a.buffer =
              plan.buffers[other].bytes == plan.buffers[a.buffer].bytes ? other : a.buffer + 1;
          return true;
        },
        accepted);
  }
  EXPECT_GT(planted, 0);
  EXPECT_THAT(accepted, testing::IsEmpty());
}

TEST_P(AllgatherGemm, ATileInAnotherRanksRowsIsSeen) {
  std::mt19937_64 random(6);
  int planted = 0;
  std::vector<std::string> accepted;
  planted += plant_in_each_tile(
      plan_of(case_of(3, random)),
      [](Plan& plan, RankPlan& part, Task& task) {
        const GemmCall call = gemm_call(plan.op);
        int64_t& row0 = part.params[task.first_param + kGemmRow0];
        const int64_t before = row0;
        row0 = (row0 + call.m) % (3 * call.m);
        Region& c = part.regions[task.first_region + 2];
        c.offset += uint64_t((row0 - before) * call.ldc) * sizeof(float);
        return true;
      },
      accepted);
  EXPECT_GT(planted, 0);
  EXPECT_THAT(accepted, testing::IsEmpty());
}

// Who owns what tiles read must not end its run before: its caller writes it then.
TEST_P(AllgatherGemm, AReaderThatDoesNotTellIsSeen) {
  if (!GetParam().mapped) GTEST_SKIP() << "nobody reads what is put";
  std::mt19937_64 random(7);
  const Plan plan = plan_of(case_of(2, random));
  std::vector<std::string> accepted;
  const int planted = plant_in_each_tile(
      plan,
      [](Plan& changed, RankPlan& part, Task& task) {
        if (task.post_count == 0) return false;
        const Post told = part.posts[task.first_post];
        task.post_count = 0;
        task.flags &= uint8_t(~kPostsInOrder);  // It has none.
        RankPlan& owner = changed.ranks[told.rank];
        std::erase_if(owner.signals, [&](const Signal& each) {
          return each.producer == part.rank && each.number == told.signal;
        });
        for (Wait& wait : owner.waits) {  // Of the last task: another one, twice.
          if (wait.producer == part.rank && wait.signal == told.signal) wait = owner.waits.back();
        }
        if (owner.waits.back().producer == part.rank && owner.waits.back().signal == told.signal) {
          for (Task& each : owner.tasks) {
            if (each.first_wait + each.wait_count == owner.waits.size()) --each.wait_count;
          }
          owner.waits.pop_back();
        }
        return true;
      },
      accepted);
  EXPECT_GT(planted, 0);
  EXPECT_THAT(accepted, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Forms, AllgatherGemm, testing::ValuesIn(kForms),
                         [](const auto& form) { return form.param.name; });

}  // namespace
}  // namespace sk
