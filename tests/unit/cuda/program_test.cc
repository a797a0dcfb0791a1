// The executor of GPUs, whole, on a fake driver whose kernels run on the CPU: results, graphs,
// several plans in flight, aborts, timeouts, traces, and what is left behind.
#include "cuda/exec/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/exec/decode.h"
#include "cuda/exec/verdict.h"
#include "lib/algo/planner.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/op_words.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"
#include "tests/unit/cuda/gpu_world.h"

namespace sk::cuda {
namespace {

using namespace testing_support;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string run_all(FakeDriver& fake, GpuProgram& program, World& world, abi::Stream stream) {
  GpuOperands operands(fake, program.plan());
  for (const std::vector<OperandBytes>& inputs : world.inputs) {
    operands.write(inputs);
    Status status = program.run(stream, operands.ranks(), kPatientNs);
    if (status.ok()) status = program.wait(stream);
    if (!status.ok()) return status.message();
    world.outputs.push_back(operands.read());
  }
  return first_difference(program.plan(), world);
}

TEST(GpuProgram, ComputesWhatTheOpSays) {
  std::mt19937_64 random(20);
  FakeDriver fake;
  fake.gpus[0].multiprocessors = 16;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  abi::Stream streams[] = {nullptr, fake.make_stream()};
  for (int made = 0; made < 12;) {
    const Case c = random_case(random, /*ranks_max=*/4);
    Result<Plan> plan = make_plan(c.op, c.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    bool able = true;
    for (const RankPlan& part : plan->ranks) able &= check_part(*plan, part).ok();
    if (!able) continue;
    SCOPED_TRACE(describe(c));
    const auto program = prepare(*device, *epoch, *plan);
    World world = random_world(*plan, /*runs=*/3, random);
    ASSERT_EQ(run_all(fake, *program, world, streams[made++ % 2]), "");
  }
}

// The copy engine reads what is aligned to 16 bytes; other operands take the kernel that loads by
// itself, run by run.
TEST(GpuProgram, TakesTheKernelThatItsOperandsAllow) {
  std::mt19937_64 random(27);
  FakeDriver fake;
  const auto device = open_device(fake);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const auto epoch = begin_epoch(*device);
    const Plan plan = plan_gemm(
        {.m = 130, .n = 70, .k = 72, .dtype = dtype, .out_dtype = dtype, .symmetric = false});
    const auto program = prepare(*device, *epoch, plan);
    World world = random_world(plan, /*runs=*/2, random);
    EXPECT_EQ(run_all(fake, *program, world, nullptr), "");
    const char* boxes = dtype == DType::kBF16  ? "sk_run_boxes_bf16"
                        : dtype == DType::kF16 ? "sk_run_boxes_f16"
                                               : "sk_run_gemms";
    EXPECT_EQ(fake.last_kernel(), boxes);
    GpuOperands operands(fake, plan);
    std::vector<RankOperands> shifted = operands.ranks();
    void* roomy = fake.allocate(0, 130 * 72 * 4 + 64);
    shifted[1][0] = static_cast<std::byte*>(roomy) + 4;
    EXPECT_EQ(program->run(nullptr, shifted, kPatientNs).message(), "");
    EXPECT_EQ(fake.last_kernel(), "sk_run_gemms");
    EXPECT_EQ(program->wait(nullptr).message(), "");
    EXPECT_EQ(program->run(nullptr, operands.ranks(), kPatientNs).message(), "");
    EXPECT_EQ(fake.last_kernel(), boxes);
    EXPECT_EQ(program->wait(nullptr).message(), "");
    fake.free(roomy);
  }
}

// Rows of A that lie at peers are read by the copy engine too, where they are.
TEST(GpuProgram, ReadsPeersRowsByTheCopyEngine) {
  std::mt19937_64 random(30);
  FakeDriver fake;
  const auto device = open_device(fake);
  for (const bool symmetric : {true, false}) {
    const auto epoch = begin_epoch(*device);
    const Plan plan = plan_gemm(
        {.m = 130, .n = 70, .k = 72, .ranks = 3, .symmetric = symmetric, .gathers = true});
    const auto program = prepare(*device, *epoch, plan);
    World world = random_world(plan, /*runs=*/2, random);
    EXPECT_EQ(run_all(fake, *program, world, nullptr), "");
    EXPECT_EQ(fake.last_kernel(), "sk_run_boxes_bf16");
    GpuOperands operands(fake, plan);
    std::vector<RankOperands> shifted = operands.ranks();
    void* roomy = fake.allocate(0, 130 * 72 * 2 + 64);
    shifted[1][0] = static_cast<std::byte*>(roomy) + 4;
    EXPECT_EQ(program->run(nullptr, shifted, kPatientNs).message(), "");
    EXPECT_EQ(fake.last_kernel(), "sk_run_gemms");
    EXPECT_EQ(program->wait(nullptr).message(), "");
    fake.free(roomy);
  }
}

TEST(GpuProgram, RunsByPairsOfBlocks) {
  std::mt19937_64 random(29);
  FakeDriver fake;
  const auto device = open_device(fake);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto epoch = begin_epoch(*device);
    const Plan plan = plan_gemm({.m = 300,
                                 .n = 70,
                                 .k = 72,
                                 .dtype = dtype,
                                 .out_dtype = dtype,
                                 .symmetric = false,
                                 .tile_m = 256});
    const auto program = prepare(*device, *epoch, plan, {.pairs = true});
    World world = random_world(plan, /*runs=*/2, random);
    EXPECT_EQ(run_all(fake, *program, world, nullptr), "");
    EXPECT_EQ(fake.last_kernel(), dtype == DType::kBF16 ? "sk_run_pairs_bf16" : "sk_run_pairs_f16");
    GpuOperands operands(fake, plan);
    std::vector<RankOperands> shifted = operands.ranks();
    void* roomy = fake.allocate(0, 300 * 72 * 4 + 64);
    shifted[1][0] = static_cast<std::byte*>(roomy) + 4;
    EXPECT_EQ(program->run(nullptr, shifted, kPatientNs).message(), "");
    EXPECT_EQ(fake.last_kernel(), "sk_run_gemms");  // By single blocks.
    EXPECT_EQ(program->wait(nullptr).message(), "");
    fake.free(roomy);
  }
}

TEST(GpuProgram, TakesNarrowBlocksForNarrowTiles) {
  std::mt19937_64 random(28);
  FakeDriver fake;
  const auto device = open_device(fake);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto epoch = begin_epoch(*device);
    const Plan plan =
        plan_gemm({.m = 130, .n = 140, .k = 72, .dtype = dtype, .out_dtype = dtype, .tile_n = 128});
    const auto program = prepare(*device, *epoch, plan);
    World world = random_world(plan, /*runs=*/2, random);
    EXPECT_EQ(run_all(fake, *program, world, nullptr), "");
    EXPECT_EQ(fake.last_kernel(),
              dtype == DType::kBF16 ? "sk_run_narrow_bf16" : "sk_run_narrow_f16");
  }
}

TEST(GpuProgram, GraphReplaysAndPlainRunsMix) {
  std::mt19937_64 random(21);
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = staged_allreduce(3, 17);
  const auto program = prepare(*device, *epoch, plan);
  World world = random_world(plan, /*runs=*/8, random);
  GpuOperands operands(fake, plan);
  abi::Stream stream = fake.make_stream();
  fake.begin_capture(stream);
  ASSERT_EQ(program->run(stream, operands.ranks(), kPatientNs).message(), "");
  const auto graph = fake.end_capture(stream);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->nodes.size(), 1u);  // The launch, nothing a replay would miss.
  for (const std::vector<OperandBytes>& inputs : world.inputs) {
    operands.write(inputs);
    if (random() % 2 == 0)
      fake.replay(*graph, stream);
    else
      ASSERT_EQ(program->run(stream, operands.ranks(), kPatientNs).message(), "");
    ASSERT_EQ(program->wait(stream).message(), "");
    world.outputs.push_back(operands.read());
  }
  EXPECT_EQ(first_difference(plan, world), "");
}

TEST(GpuProgram, IsPreparedWhileAnotherStreamIsCaptured) {
  std::mt19937_64 random(22);
  FakeDriver fake;
  const auto device = open_device(fake);
  abi::Stream captured = fake.make_stream();
  fake.begin_capture(captured);
  const Plan plan = direct_allreduce(2, 9);
  {
    const auto epoch = begin_epoch(*device);
    const auto program = prepare(*device, *epoch, plan);
    World world = random_world(plan, /*runs=*/1, random);
    EXPECT_EQ(run_all(fake, *program, world, fake.make_stream()), "");
  }
  EXPECT_NE(fake.end_capture(captured), nullptr);
}

TEST(GpuProgram, RunsOnTwoStreamsFollowEachOther) {
  std::mt19937_64 random(23);
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = staged_allreduce(2, 33);
  const auto program = prepare(*device, *epoch, plan);
  World world = random_world(plan, /*runs=*/2, random);
  GpuOperands first(fake, plan), second(fake, plan);
  abi::Stream a = fake.make_stream(), b = fake.make_stream();
  first.write(world.inputs[0]);
  second.write(world.inputs[1]);
  ASSERT_TRUE(program->run(a, first.ranks(), kPatientNs).ok());
  ASSERT_TRUE(program->run(b, second.ranks(), kPatientNs).ok());
  ASSERT_EQ(program->wait(b).message(), "");
  world.outputs = {first.read(), second.read()};  // The run on `a` is over, for that on `b` is.
  EXPECT_EQ(first_difference(plan, world), "");
  EXPECT_EQ(fake.count(Call::cuStreamWaitEvent), 1);
}

TEST(GpuProgram, SeveralPlansAreInFlight) {
  std::mt19937_64 random(24);
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plans[] = {staged_allreduce(3, 17), direct_allreduce(2, 40), put_pipeline(9, 3)};
  std::vector<World> worlds;
  std::vector<std::unique_ptr<GpuProgram>> programs;
  std::vector<std::unique_ptr<GpuOperands>> operands;
  std::vector<abi::Stream> streams;
  for (const Plan& plan : plans) {
    worlds.push_back(random_world(plan, /*runs=*/1, random));
    programs.push_back(prepare(*device, *epoch, plan));
    operands.push_back(std::make_unique<GpuOperands>(fake, plan));
    operands.back()->write(worlds.back().inputs[0]);
    streams.push_back(fake.make_stream());
    ASSERT_TRUE(programs.back()->run(streams.back(), operands.back()->ranks(), kPatientNs).ok());
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    ASSERT_EQ(programs[i]->wait(streams[i]).message(), "");
    worlds[i].outputs.push_back(operands[i]->read());
    EXPECT_EQ(first_difference(plans[i], worlds[i]), "");
  }
}

// A valid plan loses rank 1's posts, so rank 0 waits for what never comes, with work behind it.
Plan waits_in_vain() {
  Plan plan = signalled_allreduce(2, 9, /*late=*/0);
  for (Task& task : plan.ranks[1].tasks) task.post_count = 0;
  return plan;
}

TEST(GpuProgram, AWaitThatRunsOutNamesWhoWaitedForWhom) {
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = waits_in_vain();
  const auto program = prepare(*device, *epoch, plan);
  const auto other = prepare(*device, *epoch, direct_allreduce(2, 9));
  GpuOperands operands(fake, plan);
  // Long enough for rank 1 to enter, wherever the system puts its thread.
  ASSERT_TRUE(program->run(nullptr, operands.ranks(), /*timeout_ns=*/1'000'000'000).ok());
  const Status status = program->wait(nullptr);
  EXPECT_EQ(status.code(), SK_ERR_TIMEOUT);
  EXPECT_THAT(status.message(), ContainsRegex("rank 0 waited [0-9.]+ s for rank 1 in task"));
  EXPECT_THAT(status.message(), HasSubstr("stood at 0 of "));
  // The epoch is over: nothing more is launched, and what failed is said again.
  const int launches = fake.count(Call::cuLaunchKernelEx);
  EXPECT_EQ(program->run(nullptr, operands.ranks(), kPatientNs).message(), status.message());
  const Status second = other->run(nullptr, operands.ranks(), kPatientNs);
  EXPECT_EQ(second.code(), SK_ERR_ABORTED);
  EXPECT_THAT(second.message(), HasSubstr("another operation"));
  EXPECT_EQ(fake.count(Call::cuLaunchKernelEx), launches);
}

TEST(GpuProgram, AnAbortEndsALaunchThatWaits) {
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = waits_in_vain();
  const auto program = prepare(*device, *epoch, plan);
  GpuOperands operands(fake, plan);
  ASSERT_TRUE(program->run(nullptr, operands.ranks(), kPatientNs).ok());
  epoch->abort();
  const Status status = program->wait(nullptr);  // Bounded by the test's own limit.
  EXPECT_EQ(status.code(), SK_ERR_ABORTED);
  const int launches = fake.count(Call::cuLaunchKernelEx);
  EXPECT_EQ(program->run(nullptr, operands.ranks(), kPatientNs).code(), SK_ERR_ABORTED);
  EXPECT_EQ(fake.count(Call::cuLaunchKernelEx), launches);
}

// A rank alone that is told to leave all as it is has no task to name.
TEST(Verdicts, AnAbortBeforeARunThatDoesNothingIsAnAbort) {
  const OpDesc op = op_desc({.kind = OpKind::kBarrier});
  const Plan plan = make_plan(op, {.world_size = 1}).value();
  ASSERT_TRUE(plan.ranks[0].tasks.empty());
  const Control control{uint32_t(Verdict::kAborted), 0, 0, 0, 0, UINT32_MAX, 0, 0};
  const Status status = verdict_status(plan, control, 0);
  EXPECT_EQ(status.code(), SK_ERR_ABORTED);
  EXPECT_EQ(status.message(), "the run was aborted before it began");
}

TEST(GpuProgram, ATraceHasEveryTaskOfTheLastRun) {
  std::mt19937_64 random(25);
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = staged_allreduce(2, 33);
  const auto program = prepare(*device, *epoch, plan, {.trace = true});
  const int64_t before = std::chrono::steady_clock::now().time_since_epoch().count();
  World world = random_world(plan, /*runs=*/2, random);
  ASSERT_EQ(run_all(fake, *program, world, nullptr), "");
  const int64_t after = std::chrono::steady_clock::now().time_since_epoch().count();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Result<std::vector<TaskEvent>> events = program->events(rank);
    ASSERT_TRUE(events.ok());
    ASSERT_EQ(events->size(), plan.ranks[rank].tasks.size());
    for (const TaskEvent& event : *events) {
      EXPECT_EQ(event.op, plan.ranks[rank].tasks[event.task].op);
      EXPECT_LE(before, event.wait_ns);
      EXPECT_LE(event.wait_ns, event.start_ns);
      EXPECT_LE(event.start_ns, event.end_ns);
      EXPECT_LE(event.end_ns, after);
    }
  }
  const auto plain = prepare(*device, *epoch, plan);
  EXPECT_EQ(plain->events(0).status().code(), SK_ERR_UNSUPPORTED);
}

// Which only wait: the end of the launch is that wait.
TEST(GpuProgram, TasksThatEndAQueueAreLeftOut) {
  std::mt19937_64 random(32);
  FakeDriver fake;
  const auto device = open_device(fake);
  const auto epoch = begin_epoch(*device);
  const Plan plan = direct_allreduce(3, 33);
  const auto closes = uint32_t(plan.ranks[0].tasks.size() - 1);
  ASSERT_EQ(plan.ranks[0].tasks[closes].op, TaskOp::kNop);
  ASSERT_EQ(plan.ranks[0].tasks[closes].wait_count, 2);
  const auto program = prepare(*device, *epoch, plan, {.trace = true});
  World world = random_world(plan, /*runs=*/4, random);
  ASSERT_EQ(run_all(fake, *program, world, nullptr), "");
  Result<std::vector<TaskEvent>> events = program->events(0);
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), closes);
  for (const TaskEvent& event : *events) EXPECT_NE(event.task, closes);
}

// A launch that had to load its kernel could wait for kernels that wait for it.
TEST(GpuProgram, LaunchesNoKernelThatIsNotLoaded) {
  std::mt19937_64 random(31);
  for (const bool old : {false, true}) {
    FakeDriver fake;
    if (old) fake.runtime().driver.cuFuncLoad = nullptr;  // As before CUDA 12.4.
    const auto device = open_device(fake);
    const auto epoch = begin_epoch(*device);
    const Plan plan = direct_allreduce(2, 9);
    const auto program = prepare(*device, *epoch, plan);
    World world = random_world(plan, /*runs=*/1, random);
    ASSERT_EQ(run_all(fake, *program, world, nullptr), "");
    EXPECT_EQ(fake.lazy_loads() == 0, !old);
  }
}

TEST(GpuProgram, LeavesNothingBehind) {
  std::mt19937_64 random(26);
  FakeDriver fake;
  {
    const auto device = open_device(fake);
    const auto epoch = begin_epoch(*device);
    const uint64_t before = fake.allocated_bytes();
    for (int i = 0; i < 3; ++i) {
      const Plan plan = direct_allreduce(2, 9);
      const auto program = prepare(*device, *epoch, plan);
      EXPECT_GE(fake.allocated_bytes(), before + program->device_bytes());
      World world = random_world(plan, /*runs=*/2, random);
      ASSERT_EQ(run_all(fake, *program, world, nullptr), "");
    }
    EXPECT_EQ(fake.allocated_bytes(), before);
  }
  EXPECT_EQ(fake.allocated_bytes(), 0u);
  EXPECT_EQ(fake.count(Call::cuDevicePrimaryCtxRetain),
            fake.count(Call::cuDevicePrimaryCtxRelease));
  EXPECT_EQ(fake.count(Call::cuModuleLoadData), fake.count(Call::cuModuleUnload));
  EXPECT_EQ(fake.count(Call::cuEventCreate), fake.count(Call::cuEventDestroy));
  EXPECT_EQ(fake.count(Call::cuCtxPushCurrent), fake.count(Call::cuCtxPopCurrent));
}

}  // namespace
}  // namespace sk::cuda
