// Every operation of a GPU through the C ABI against the independent oracle, and what only GPUs
// have: streams, graphs, failures that come late. The driver is a fake, all else is the library.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>

#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kCases = 6;
#else
constexpr int kCases = 16;
#endif

class GpuOps : public testing::TestWithParam<int> {};

TEST_P(GpuOps, EqualTheOracle) {
  for (const bool streams : {false, true}) {
    Machine machine;
    const Gpu gpu = machine.gpu(streams);
    const Row row = {
        .ranks = GetParam(), .cases = kCases, .seed = base_seed(), .workers = 0, .gpu = &gpu};
    ASSERT_EQ(run_threads(row), "") << "streams " << streams << ", SK_TEST_SEED=" << row.seed;
    EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
  }
}

TEST_P(GpuOps, EqualTheOracleWithPutsOnly) {
  Machine machine;
  const Gpu gpu = machine.gpu(false);
  const Row row = {.ranks = GetParam(),
                   .cases = kCases,
                   .seed = base_seed(),
                   .flags = SK_COMM_PUT_ONLY,
                   .workers = 1,
                   .gpu = &gpu};
  ASSERT_EQ(run_threads(row), "") << "SK_TEST_SEED=" << row.seed;
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuOps, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

// Each rank's input is written by its own stream, late. `dropped`: a driver whose streams do not
// wait for events, as if the library had forgotten to join them.
std::string reduce_behind_late_writes(bool dropped) {
  Machine machine([dropped](cuda::Driver& driver) {
    if (dropped) driver.cuStreamWaitEvent = [](auto...) { return cuda::abi::Result(0); };
  });
  constexpr int kRanks = 3, kCount = 100;
  const Gpu gpu = machine.gpu(/*streams=*/true);
  std::barrier<> all(kRanks);
  std::atomic<int> wrong{0}, early{0};
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    void* const stream = gpu.stream(rank);
    const sk_run_options options = on_gpu(stream);
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 2 * kCount * sizeof(int32_t), &memory), SK_OK) << sk_last_error();
    auto* in = static_cast<int32_t*>(memory);
    int32_t* out = in + kCount;
    for (int round = 0; round < 3; ++round) {
      std::memset(memory, 0x5a, 2 * kCount * sizeof(int32_t));
      std::vector<int32_t> mine(kCount, (rank + 1) * (round + 1));
      // Rank 0's stream, which has the launch, has nothing of its own to wait for.
      std::function<void()> open = rank != 0 ? machine.hold(stream) : nullptr;
      ASSERT_EQ(machine.fake.runtime().driver.cuMemcpyHtoDAsync(
                    reinterpret_cast<uint64_t>(in), mine.data(), kCount * sizeof(int32_t),
                    static_cast<cuda::abi::Stream>(stream)),
                cuda::abi::kSuccess);
      ASSERT_EQ(sk_allreduce(comm, in, out, kCount, SK_I32, SK_SUM, &options), SK_OK)
          << sk_last_error();
      // Nobody waits for the writes: the calls have returned.
      all.arrive_and_wait();
      if (rank == 0) {
        sk_run_options brief = options;
        brief.timeout_ms = 30;
        const sk_status status = sk_comm_synchronize(comm, &brief);
        if (status != SK_ERR_TIMEOUT) ++early;
      }
      all.arrive_and_wait();
      if (open) open();
      ASSERT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
      all.arrive_and_wait();
      for (int i = 0; i < kCount; ++i) wrong += out[i] != 6 * (round + 1) ? 1 : 0;
    }
    ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
  if (early != 0) return "the launch did not wait for the other ranks' streams";
  return wrong != 0 ? "wrong sums" : "";
}

TEST(GpuStreams, AreJoinedAroundALaunch) { EXPECT_EQ(reduce_behind_late_writes(false), ""); }

TEST(GpuStreams, ThatAreNotJoinedAreNoticed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "this bug is a data race, at which ThreadSanitizer ends the test";
#endif
  EXPECT_EQ(reduce_behind_late_writes(true),
            "the launch did not wait for the other ranks' streams");
}

TEST(GpuGraphs, ReplayACallOfAllRanks) {
  Machine machine;
  constexpr int kRanks = 2, kCount = 65;
  cuda::abi::Stream const stream = machine.fake.make_stream();
  const sk_run_options options = on_gpu(stream);
  std::barrier<> all(kRanks);
  std::shared_ptr<cuda::FakeDriver::Graph> graph;
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &memory), SK_OK) << sk_last_error();
    auto* data = static_cast<float*>(memory);
    if (rank == 0) machine.fake.begin_capture(stream);
    all.arrive_and_wait();
    // The first call of its kind: the plan is made ready beside the capture.
    ASSERT_EQ(sk_allreduce(comm, data, data, kCount, SK_F32, SK_SUM, &options), SK_OK)
        << sk_last_error();
    expect_refused(sk_comm_synchronize(comm, &options), SK_ERR_INVALID_ARGUMENT, "captured");
    all.arrive_and_wait();
    if (rank == 0) {
      // The refused wait has not spoiled it.
      graph = machine.fake.end_capture(stream);
      ASSERT_NE(graph, nullptr);
      EXPECT_EQ(graph->nodes.size(), 1u);
    }
    all.arrive_and_wait();
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < kCount; ++i) data[i] = float(i * (rank + 1) + round);
      all.arrive_and_wait();
      if (round % 2 == 0) {
        if (rank == 0) machine.fake.replay(*graph, stream);
        all.arrive_and_wait();
      } else {
        ASSERT_EQ(sk_allreduce(comm, data, data, kCount, SK_F32, SK_SUM, &options), SK_OK)
            << sk_last_error();
      }
      ASSERT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
      for (int i = 0; i < kCount; ++i) ASSERT_EQ(data[i], float(3 * i + 2 * round)) << i;
      all.arrive_and_wait();
    }
    ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
}

TEST(GpuGraphs, TakeOneStreamOfAllRanks) {
  Machine machine;
  cuda::abi::Stream const captured = machine.fake.make_stream(), other = machine.fake.make_stream();
  std::barrier<> all(2);
  in_ranks(2, [&](sk_comm* comm, int rank) {
    if (rank == 0) machine.fake.begin_capture(captured);
    all.arrive_and_wait();
    const sk_run_options options = on_gpu(rank == 0 ? other : captured);
    const int launches = machine.fake.count(cuda::Call::cuLaunchKernelEx);
    all.arrive_and_wait();
    expect_refused(sk_barrier(comm, &options), SK_ERR_INVALID_ARGUMENT,
                   "the stream of rank 1 is captured");
    EXPECT_EQ(machine.fake.count(cuda::Call::cuLaunchKernelEx), launches);
    all.arrive_and_wait();
    if (rank == 0) machine.fake.end_capture(captured);
    all.arrive_and_wait();
    expect_usable(comm, 2, captured);
  });
}

TEST(GpuComms, TwoOfOneGpuWorkBesideEachOther) {
  Machine machine;
  constexpr int kRanks = 2;
  const auto second = [](sk_comm_config& config) { config.name = "second"; };
  in_ranks(kRanks, [&](sk_comm* first_comm, int rank) {
    sk_context* context = nullptr;
    ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
    sk_comm_config config = gpu_config(rank, kRanks);
    second(config);
    sk_comm* comm = nullptr;
    ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
    for (int round = 0; round < 3; ++round) {
      expect_usable(first_comm, kRanks);
      expect_usable(comm, kRanks);
    }
    // An end of one is none of the other.
    if (rank == 0) {
      ASSERT_EQ(sk_comm_abort(first_comm, "enough"), SK_OK);
    }
    expect_usable(comm, kRanks);
    EXPECT_EQ(sk_comm_free(comm), SK_OK);
    EXPECT_EQ(sk_finalize(context), SK_OK);
  });
  EXPECT_EQ(machine.fake.count(cuda::Call::cuModuleLoadData), 1);  // They share the device.
  EXPECT_EQ(machine.fake.count(cuda::Call::cuModuleUnload), 1);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuPlans, AreRunByName) {
  Machine machine;
  in_ranks(2, [&](sk_comm* comm, int rank) {
    sk_plan_desc desc{};
    desc.struct_size = sizeof(desc);
    desc.kind = SK_OP_ALLGATHER;
    desc.dtype = SK_F16;
    desc.count = 33;
    sk_plan* plan = nullptr;
    ASSERT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 3 * 33 * 2, &memory), SK_OK) << sk_last_error();
    auto* in = static_cast<uint16_t*>(memory);
    for (int i = 0; i < 33; ++i) in[i] = uint16_t(rank * 1000 + i);
    ASSERT_EQ(sk_plan_run(plan, in, nullptr, in + 33, nullptr), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_comm_synchronize(comm, nullptr), SK_OK) << sk_last_error();
    for (int i = 0; i < 66; ++i) ASSERT_EQ(in[33 + i], (i / 33) * 1000 + i % 33);
    ASSERT_EQ(sk_free(comm, memory), SK_OK);
    ASSERT_EQ(sk_plan_free(plan), SK_OK);
  });
}

}  // namespace
}  // namespace sk::testing_ops
