// What a GPU cannot take is said in a sentence, and nothing is launched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cuda/exec/decode.h"
#include "cuda/exec/program.h"
#include "lib/algo/planner.h"
#include "lib/base/article.h"
#include "lib/op/ops/adamw.h"
#include "lib/op/ops/add_rmsnorm.h"
#include "lib/plan/task_info.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/op_words.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"
#include "tests/unit/cuda/gpu_world.h"

namespace sk::cuda {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const FakeDriver& fake, int ordinal = 0) {
  const Result<std::unique_ptr<Device>> device = Device::open(fake.runtime(), ordinal);
  EXPECT_FALSE(device.ok());
  return device.status().message();
}

TEST(BadGpu, IsNotThere) {
  FakeDriver fake;
  EXPECT_THAT(refusal(fake, 3), HasSubstr("GPU 3: the driver has 1 here"));
  EXPECT_THAT(refusal(fake, -1), HasSubstr("GPU -1"));
}

TEST(BadGpu, IsOlderThanTheKernels) {
  FakeDriver fake;
  fake.gpus[0].name = "Fake T4";
  fake.gpus[0].capability[0] = 7;
  fake.gpus[0].capability[1] = 5;
  EXPECT_THAT(refusal(fake),
              AllOf(HasSubstr("Fake T4 has compute capability 7.5"), HasSubstr("8.0 on")));
}

TEST(BadGpu, CannotKeepALaunchResident) {
  FakeDriver fake;
  fake.gpus[0].cooperative = false;
  EXPECT_THAT(refusal(fake), HasSubstr("resident"));
}

TEST(BadGpu, TakesNoneOfTheKernels) {
  for (const abi::Result result : {abi::kNoBinaryForGpu, abi::kUnsupportedPtxVersion}) {
    FakeDriver fake;
    fake.gpus[0].capability[0] = 12;
    fake.version = 13000;
    fake.fail(Call::cuModuleLoadData, result);
    EXPECT_THAT(refusal(fake),
                AllOf(HasSubstr("compute capability 12.0"),
                      HasSubstr("they are of CUDA 13.0, the driver is for CUDA 13.0")));
    EXPECT_EQ(fake.count(Call::cuDevicePrimaryCtxRelease), 1);
  }
}

TEST(BadGpu, HasTooLittleSharedMemory) {
  FakeDriver fake;
  fake.gpus[0].shared_bytes_max = 64 << 10;
  EXPECT_THAT(refusal(fake), AllOf(HasSubstr("sk_run_gemms takes"), HasSubstr("has 65536")));
}

TEST(BadGpu, HasADriverOfAnotherAge) {
  FakeDriver fake;
  fake.version = 12090;
  fake.runtime().release = "575.57.08";
  EXPECT_THAT(refusal(fake),
              AllOf(HasSubstr("575.57.08 is for CUDA 12.9"), HasSubstr("CUDA 13.0")));
  fake.version = 13000;
  fake.runtime().kernels.interface ^= 1;
  EXPECT_THAT(refusal(fake), HasSubstr("another version than this library"));
}

// Any call of open() may fail: each time the sentence has its name, and nothing is left behind.
TEST(BadGpu, FailsInAnyCall) {
  const Call calls[] = {Call::cuDriverGetVersion,
                        Call::cuInit,
                        Call::cuDeviceGetCount,
                        Call::cuDeviceGet,
                        Call::cuDeviceGetName,
                        Call::cuDeviceGetAttribute,
                        Call::cuDevicePrimaryCtxRetain,
                        Call::cuCtxPushCurrent,
                        Call::cuStreamCreate,
                        Call::cuModuleLoadData,
                        Call::cuModuleGetFunction,
                        Call::cuFuncLoad,
                        Call::cuMemAlloc,
                        Call::cuLaunchKernelEx,
                        Call::cuMemcpyDtoHAsync,
                        Call::cuStreamSynchronize,
                        Call::cuFuncSetAttribute,
                        Call::cuOccupancyMaxActiveBlocksPerMultiprocessor};
  for (const Call call : calls) {
    FakeDriver fake;
    fake.fail(call, abi::kUnknown);
    EXPECT_THAT(refusal(fake), HasSubstr("CUDA_ERROR_UNKNOWN")) << int(call);
    const bool retained =
        fake.count(Call::cuDevicePrimaryCtxRetain) > 0 && call != Call::cuDevicePrimaryCtxRetain;
    EXPECT_EQ(fake.count(Call::cuDevicePrimaryCtxRelease), retained ? 1 : 0) << int(call);
  }
}

class BadPlan : public testing::Test {
 protected:
  Status refusal(const Plan& plan, const ProgramOptions& options = {}) {
    const auto device = open_device(fake_);
    const auto epoch = begin_epoch(*device);
    const uint64_t before = fake_.allocated_bytes();
    const Result<std::unique_ptr<GpuProgram>> program =
        GpuProgram::prepare(*device, *epoch, std::make_shared<const Plan>(plan), options);
    EXPECT_FALSE(program.ok());
    EXPECT_EQ(fake_.allocated_bytes(), before);
    EXPECT_EQ(fake_.count(Call::cuLaunchKernelEx), 1);  // The device's, when it was opened.
    return program.status().clone();
  }
  FakeDriver fake_;
};

constexpr char kPairsWant[] = "they multiply bf16 and f16 in tiles of more than 128 columns";

TEST_F(BadPlan, HasTilesTooNarrowForPairsOfBlocks) {
  const Plan plan = plan_gemm({.m = 9, .n = 9, .k = 8, .tile_n = 128});
  EXPECT_THAT(refusal(plan, {.pairs = true}).message(), HasSubstr(kPairsWant));
}

TEST_F(BadPlan, HasATypeThatPairsOfBlocksCannotMultiply) {
  const Plan plan = plan_gemm({.m = 9, .n = 9, .k = 8, .dtype = DType::kF32});
  EXPECT_THAT(refusal(plan, {.pairs = true}).message(), HasSubstr(kPairsWant));
}

TEST_F(BadPlan, WantsPairsOfADriverThatHasNoClusters) {
  fake_.fail(Call::cuOccupancyMaxActiveClusters, abi::kUnknown, 0);
  const Plan plan = plan_gemm({.m = 9, .n = 9, .k = 8});
  EXPECT_THAT(refusal(plan, {.pairs = true}).message(), HasSubstr(kPairsWant));
}

TEST_F(BadPlan, HasMoreQueuesThanPairsOfBlocksCanBeResident) {
  fake_.gpus[0].multiprocessors = 3;  // One pair.
  const Status status =
      refusal(plan_gemm({.m = 512, .n = 9, .k = 8, .tile_m = 256}), {.pairs = true});
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("2 queues, but only 1 pairs of blocks can be resident"));
}

TEST_F(BadPlan, HasMoreQueuesThanBlocksCanBeResident) {
  fake_.gpus[0].multiprocessors = 3;
  const Status status = refusal(direct_allreduce(4, 9));
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("4 ranks have 4 queues"), HasSubstr("only 3 blocks"),
                    HasSubstr("Fake H100 (3 multiprocessors)"), HasSubstr("at most 0 workers")));
}

TEST_F(BadPlan, HasMoreRanksThanALaunch) {
  fake_.gpus[0].multiprocessors = 64;
  EXPECT_THAT(refusal(direct_allreduce(17, 40)).message(),
              HasSubstr("17 ranks on one GPU; at most 16"));
}

TEST_F(BadPlan, NeedsMoreMemoryThanThereIs) {
  fake_.gpus[0].memory_bytes = 4096;
  const Status status = refusal(staged_allreduce(2, 100'000));
  EXPECT_EQ(status.code(), SK_ERR_NO_MEMORY);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("the plan needs "), HasSubstr(" of 4096 are free")));
}

TEST_F(BadPlan, MultipliesATypeThatNoKernelHas) {
  TextOp op;
  op.kind = OpKind::kAllreduceGemm;
  op.dtype = op.out_dtype = DType::kF64;
  op.m = op.n = op.k = 16;
  Target target{.world_size = 1};
  target.packed_bytes = 16 * 16 * 8;
  const Result<Plan> plan = make_plan(testing_support::op_desc(op), target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(refusal(plan.value()).message(),
              HasSubstr("matrices of f64 on a GPU; f32, bf16 and f16 are supported"));
}

TEST_F(BadPlan, PacksColumnsByThemselves) {
  TextOp op{.kind = OpKind::kAllreduceGemm, .symmetric_out = true, .pack_b = true};
  op.m = op.n = op.k = op.lda = op.ldb = op.ldc = 16;
  Target target{.world_size = 2, .workers = 1};
  target.packed_bytes = 16 * 16 * 4;
  Result<Plan> plan = make_plan(testing_support::op_desc(op), target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  RankPlan& part = plan.value().ranks[0];
  for (const Task& task : part.tasks) {
    if (task.op == TaskOp::kPackB) part.params[task.first_param + kPackCol1] = 8;
  }
  const Status status = refusal(plan.value());
  EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("columns 0 to 8 of 16 are packed by themselves"));
}

TEST_F(BadPlan, FailsInAnyCall) {
  const auto device = open_device(fake_);
  const auto epoch = begin_epoch(*device);
  const uint64_t before = fake_.allocated_bytes();
  const auto plan = std::make_shared<const Plan>(direct_allreduce(2, 9));
  for (const Call call :
       {Call::cuCtxPushCurrent, Call::cuMemAlloc, Call::cuMemsetD8Async, Call::cuMemcpyHtoDAsync,
        Call::cuStreamSynchronize, Call::cuEventCreate}) {
    fake_.fail(call, abi::kUnknown);
    const auto program = GpuProgram::prepare(*device, *epoch, plan, {});
    EXPECT_THAT(program.status().message(), HasSubstr("CUDA_ERROR_UNKNOWN")) << int(call);
    EXPECT_EQ(fake_.allocated_bytes(), before) << int(call);
  }
}

class BadRun : public testing::Test {
 protected:
  BadRun() { fake_.gpus.resize(2); }
  void SetUp() override {
    device_ = open_device(fake_);
    epoch_ = begin_epoch(*device_);
    program_ = prepare(*device_, *epoch_, plan_);
    operands_ = std::make_unique<GpuOperands>(fake_, plan_);
    ranks_ = operands_->ranks();
  }
  // That of a run which launched nothing; the next one, with what is right, works.
  std::string refusal(abi::Stream stream = nullptr) {
    const int launches = fake_.count(Call::cuLaunchKernelEx);
    const Status status = program_->run(stream, ranks_, kPatientNs);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(fake_.count(Call::cuLaunchKernelEx), launches);
    return status.message();
  }
  void expect_usable(abi::Stream stream = nullptr) {
    EXPECT_EQ(program_->run(stream, operands_->ranks(), kPatientNs).message(), "");
    EXPECT_EQ(program_->wait(stream).message(), "");
  }

  FakeDriver fake_;
  const Plan plan_ = direct_allreduce(2, 9);
  std::unique_ptr<Device> device_;
  std::unique_ptr<Epoch> epoch_;
  std::unique_ptr<GpuProgram> program_;
  std::unique_ptr<GpuOperands> operands_;
  std::vector<RankOperands> ranks_;
};

TEST_F(BadRun, HasHostMemory) {
  alignas(16) float on_the_host[16];
  ranks_[1][0] = on_the_host;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("rank 1: in at 0x"),
                               HasSubstr("is memory of the host; memory of GPU 0")));
  void* pinned = fake_.allocate(-1, 64);
  ranks_[1][0] = pinned;
  EXPECT_THAT(refusal(), HasSubstr("is memory of the host"));
  fake_.free(pinned);
  expect_usable();
}

TEST_F(BadRun, HasMemoryOfAnotherGpu) {
  void* elsewhere = fake_.allocate(1, 64);
  ranks_[0][1] = elsewhere;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("rank 0: out"),
                               HasSubstr("memory of GPU 1; memory of GPU 0 is due")));
  fake_.free(elsewhere);
  expect_usable();
}

TEST_F(BadRun, MayHaveManagedMemory) {
  void* managed = fake_.allocate(1, 64, /*managed=*/true);
  ranks_[0][0] = managed;
  EXPECT_EQ(program_->run(nullptr, ranks_, kPatientNs).message(), "");
  EXPECT_EQ(program_->wait(nullptr).message(), "");
  fake_.free(managed);
}

TEST_F(BadRun, IsMisaligned) {
  ranks_[0][0] = static_cast<std::byte*>(ranks_[0][0]) + 1;
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("rank 0: in"), HasSubstr("no address for f32, which takes 4")));
  expect_usable();
}

TEST_F(BadRun, LacksAnOperand) {
  ranks_[1][1] = nullptr;
  EXPECT_THAT(refusal(), HasSubstr("rank 1: out is null; 36 bytes of Fake H100's memory"));
  ranks_.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("operands of 1 ranks; the plan has 2"));
  expect_usable();
}

TEST_F(BadRun, IsOnAnotherGpusStream) {
  EXPECT_THAT(refusal(fake_.make_stream(1)), HasSubstr("not of GPU 0's primary context"));
  expect_usable(fake_.make_stream(0));
}

TEST_F(BadRun, IsOnAStreamWhoseCaptureForbidsIt) {
  abi::Stream stream = fake_.make_stream();
  fake_.begin_capture(stream);
  EXPECT_THAT(refusal(nullptr), HasSubstr("pass the stream that is captured"));
  EXPECT_THAT(program_->wait(stream).message(), HasSubstr("runs nothing"));
  fake_.invalidate_capture(stream);
  EXPECT_THAT(refusal(stream), HasSubstr("has failed already"));
  EXPECT_EQ(fake_.end_capture(stream), nullptr);
  expect_usable(stream);
}

TEST_F(BadRun, ComesAfterAStickyError) {
  fake_.crash_next_launch(abi::kIllegalAddress);
  // Whichever call sees it first.
  Status status = program_->run(nullptr, ranks_, kPatientNs);
  if (status.ok()) status = program_->wait(nullptr);
  EXPECT_EQ(status.code(), SK_ERR_DEVICE);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("must be restarted")));
  EXPECT_THAT(refusal(), HasSubstr("must be restarted"));
  const auto another =
      GpuProgram::prepare(*device_, *epoch_, std::make_shared<const Plan>(plan_), {});
  EXPECT_THAT(another.status().message(), HasSubstr("must be restarted"));
}

TEST_F(BadRun, FailsInAnyCall) {
  abi::Stream stream = fake_.make_stream();
  expect_usable(stream);
  for (const Call call :
       {Call::cuCtxPushCurrent, Call::cuPointerGetAttributes, Call::cuStreamGetCtx,
        Call::cuStreamIsCapturing, Call::cuStreamWaitEvent}) {
    fake_.fail(call, abi::kUnknown);
    EXPECT_THAT(refusal(), HasSubstr("CUDA_ERROR_UNKNOWN")) << int(call);
    expect_usable(stream);
  }
  fake_.fail(Call::cuLaunchKernelEx, abi::kUnknown);
  EXPECT_THAT(program_->run(stream, ranks_, kPatientNs).message(), HasSubstr("cuLaunchKernelEx"));
  expect_usable(stream);
}

// Of rows there are kernels for CPUs alone: that is said before anything is launched, of each kind
// of task.
TEST(RowsOnAGpu, HaveNoKernelYet) {
  std::set<std::string> refused;
  for (const Schema* schema : all_schemas()) {
    if (schema->scope != Scope::kLocal) continue;
    OpDesc op(*schema);
    for (size_t i = 0; i < schema->dimensions.size(); ++i) op.set(schema->dimension_field(i), 100);
    for (uint32_t i = 0; i < schema->operands.size(); ++i) {
      if (const Field stride = schema->stride_field(i)) op.set(stride, 100);
    }
    Result<Plan> plan = make_plan(op, {.world_size = 1});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const RankPlan& part = plan->ranks[0];
    for (const Task& task : part.tasks) {
      RankPlan alone = part;
      alone.tasks = {task};
      const Status status = check_part(*plan, alone);
      EXPECT_EQ(status.code(), SK_ERR_UNSUPPORTED);
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("no kernel for {} on a GPU yet",
                                                          with_article(task_op_name(task.op)))));
      refused.emplace(task_op_name(task.op));
    }
  }
  EXPECT_THAT(refused, testing::IsSupersetOf({"adamw", "add_rmsnorm", "rmsnorm", "sum_rows"}));
}

}  // namespace
}  // namespace sk::cuda
