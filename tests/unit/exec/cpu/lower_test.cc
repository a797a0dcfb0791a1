// Valid plans that the kernels of this machine cannot run are refused before they run: kernels have
// places for so many buffers, and layouts of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "lib/algo/planner.h"
#include "lib/exec/cpu/executor.h"
#include "lib/plan/builder.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/shm/shm.h"

namespace sk::cpu {
namespace {

using testing::HasSubstr;

// A world of one that prepares plans.
class Lower : public testing::Test {
 protected:
  void SetUp() override {
    BootstrapConfig config;
    config.env = [](const char*) { return std::nullopt; };
    Result<std::unique_ptr<Bootstrap>> bootstrap = make_bootstrap(config);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
    SegmentLayout layout;
    layout.signal_count_max = signals_per_edge(1);
    layout.workspace_bytes_max = staging_bytes() + (16 << 20);
    Result<std::unique_ptr<Endpoint>> endpoint =
        connect_shm(**bootstrap, layout, {.timeout_ns = 1'000'000'000});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
    endpoint_ = std::move(*endpoint);
    ledger_ = std::make_unique<Ledger>(1, signals_per_edge(1));
    executor_ = make_cpu_executor(*endpoint_, *ledger_, {});
  }

  Status prepare(const Plan& plan) {
    return executor_->prepare(std::make_shared<const Plan>(plan), fingerprint(plan))
        .status()
        .clone();
  }
  void expect_refused(const Plan& plan, const std::string& sentence) {
    const Status valid = validate(plan);
    EXPECT_TRUE(valid.ok()) << valid.message();
    expect_unsupported(plan, sentence);
  }
  // The same of a plan that is none of a world of one.
  void expect_unsupported(const Plan& plan, const std::string& sentence) {
    const Status status = prepare(plan);
    EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(status.message(), HasSubstr(sentence));
  }

  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Executor> executor_;
};

constexpr uint64_t kBytes = 64, kRow = 32;  // An operand, as two rows.

// An all-reduce of one rank with `copies` pieces of workspace behind input and output.
Plan plan_with_workspace(uint32_t copies) {
  Plan plan;
  plan.op = testing_support::op_desc({.kind = OpKind::kAllreduce, .count = kBytes / 4});
  plan.buffers.push_back({.kind = BufferKind::kInput, .operand = 0, .bytes = kBytes});
  plan.buffers.push_back({.kind = BufferKind::kOutput, .operand = 1, .bytes = kBytes});
  for (uint32_t i = 0; i < copies; ++i)
    plan.buffers.push_back({.bytes = kBytes, .offset = i * kBytes});
  return plan;
}

Region rows(uint32_t buffer, RegionAccess access, uint32_t count = 1) {
  return {0, kRow, kRow, 2, buffer, count, access};
}

constexpr int64_t kCopyParams[kCopyParamCount] = {kStoreDefault};

void copy_out(RankBuilder& builder) {
  builder.add(
      {.op = TaskOp::kCopy, .regions = {rows(0, kRead), rows(1, kWrite)}, .params = kCopyParams});
}

TEST_F(Lower, ACopyInRowsHasPlacesForSoManyOutputs) {
  for (const uint32_t copies : {1024u, 1025u}) {
    Plan plan = plan_with_workspace(copies);
    RankBuilder builder(0, 1);
    builder.add({.op = TaskOp::kCopy,
                 .regions = {rows(0, kRead), rows(2, kWrite, copies)},
                 .params = kCopyParams});
    copy_out(builder);
    plan.ranks.push_back(builder.finish());
    if (copies == 1024) {
      EXPECT_TRUE(prepare(plan).ok()) << prepare(plan).message();
    } else {
      expect_refused(plan, "a copy has 1025 outputs in rows, on this machine at most 1024 at once");
    }
  }
}

TEST_F(Lower, AReductionInRowsHasPlacesForSoManyInputsAndOutputs) {
  int64_t params[kReduceParamCount] = {};
  params[kReduceDtype] = params[kReduceOutDtype] = SK_F32;
  params[kReduceOp] = SK_MAX;
  Plan plan = plan_with_workspace(66);
  RankBuilder builder(0, 1);
  for (uint32_t i = 0; i < 65; ++i) {
    builder.add({.op = TaskOp::kCopy,
                 .regions = {rows(0, kRead), rows(2 + i, kWrite)},
                 .params = kCopyParams});
  }
  builder.add({.op = TaskOp::kReduce,
               .after_all = true,
               .regions = {rows(2, kRead, 65), rows(67, kWrite)},
               .params = params});
  copy_out(builder);
  plan.ranks.push_back(builder.finish());
  expect_unsupported(plan, "a reduce has 65 inputs in rows, on this machine at most 64 at once");

  plan = plan_with_workspace(65);
  RankBuilder outputs(0, 1);
  outputs.add(
      {.op = TaskOp::kReduce, .regions = {rows(0, kRead), rows(2, kWrite, 65)}, .params = params});
  copy_out(outputs);
  plan.ranks.push_back(outputs.finish());
  expect_refused(plan, "a reduce has 65 outputs in rows, on this machine at most 64 at once");
}

Plan gemm_plan(uint32_t tile_n, uint64_t packed_bytes, bool pack_b = false) {
  TextOp op{.kind = OpKind::kAllreduceGemm, .pack_b = pack_b};
  op.m = 40;
  op.n = op.ldc = 80;
  op.k = op.lda = 8;
  if (pack_b) op.ldb = op.n;
  const Target target{.tile_m = 16, .tile_n = tile_n, .packed_bytes = packed_bytes};
  Result<Plan> plan = make_plan(testing_support::op_desc(op), target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return std::move(plan).value();
}

TEST_F(Lower, PackedWeightsHaveTheRoomThatTheKernelsTake) {
  // 80 columns are padded to 96.
  constexpr uint64_t kTaken = 96 * 8 * 4;
  EXPECT_TRUE(prepare(gemm_plan(32, kTaken)).ok()) << prepare(gemm_plan(32, kTaken)).message();
  for (const bool pack_b : {false, true}) {
    expect_refused(gemm_plan(32, kTaken - 64, pack_b),
                   "has 3008 bytes for a packed B of 8 x 80, which takes 3072");
  }
}

TEST_F(Lower, TilesBeginWhereThePackedColumnsDo) {
  expect_refused(gemm_plan(16, 4096),
                 "a tile begins at column 16, on this machine at multiples of");
}

TEST_F(Lower, ColumnsAreNotPackedByThemselves) {
  Plan plan = gemm_plan(32, 4096, /*pack_b=*/true);
  RankPlan& part = plan.ranks[0];
  for (const Task& task : part.tasks) {
    if (task.op == TaskOp::kPackB) part.params[task.first_param + kPackCol1] = 32;
  }
  const Status status = prepare(plan);
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("columns 0 to 32 of 80 are packed by themselves"));
}

TEST_F(Lower, AnOperationWithoutAKernelIsRefused) {
  Plan plan = plan_with_workspace(0);
  RankBuilder builder(0, 1);
  copy_out(builder);
  plan.ranks.push_back(builder.finish());
  plan.ranks[0].tasks[0].op = TaskOp(kTaskOpCount + 1);
  EXPECT_EQ(prepare(plan).code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(prepare(plan).message(),
              HasSubstr(fmt::format("no kernel for operation {}", kTaskOpCount + 1)));
}

// A training loop may leave a trace on.
TEST_F(Lower, ATraceThatIsFullKeepsNothingOfLaterRuns) {
  Plan plan = plan_with_workspace(0);
  RankBuilder builder(0, 1);
  copy_out(builder);
  plan.ranks.push_back(builder.finish());
  Result<std::unique_ptr<Program>> program =
      executor_->prepare(std::make_shared<const Plan>(plan), fingerprint(plan));
  ASSERT_TRUE(program.ok()) << program.status().message();
  TraceBuffer trace;
  trace.event_count_max = 3;
  executor_->set_trace(&trace);
  std::array<std::byte, kBytes> in{}, out{};
  for (uint64_t seq = 1; seq <= 10; ++seq) {
    RunArgs args;
    args.operands[0].data = in.data();
    args.operands[1].data = out.data();
    args.seq = seq;
    args.timeout_ns = 1'000'000'000;
    ASSERT_TRUE((*program)->run(args).ok());
  }
  EXPECT_EQ(trace.runs.size(), 3u);
  EXPECT_EQ(trace.event_count, 3u);
  EXPECT_EQ(trace.dropped, 7u);
}

TEST(Signals, SufficeForAnyNumberOfWorkers) {
  for (const uint32_t ranks : {1u, 2u, 3u, 8u, 40u}) {
    for (const uint32_t workers : {1u, 48u, 128u, 256u}) {
      TextOp product{.kind = OpKind::kAllreduceGemm};
      product.m = 16 * 64;
      product.n = product.ldc = 32 * 64;
      product.k = product.lda = 8;
      TextOp sum{.kind = OpKind::kAllreduce, .count = 75'000'000};
      sum.symmetric_in = sum.symmetric_out = true;
      for (const OpDesc& op : {testing_support::op_desc(product), testing_support::op_desc(sum)}) {
        const Target target{.world_size = ranks,
                            .workers = workers,
                            .tile_m = 16,
                            .tile_n = 32,
                            .packed_bytes = 1 << 20,
                            .edge_signals_max = signals_per_edge(ranks)};
        Result<Plan> plan = make_plan_part(op, target, 0);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        const RankPlan& part = plan->ranks.front();
        for (const Signal& signal : part.signals) {
          EXPECT_LT(signal.number, signals_per_edge(ranks))
              << describe(op) << " of " << ranks << " x " << workers;
        }
        if (op.kind() == OpKind::kAllreduceGemm && ranks <= 8) {
          EXPECT_GE(part.queues.size(), std::min(workers, 47u));
        }
      }
    }
  }
}

}  // namespace
}  // namespace sk::cpu
