// Ends that are bounded although the GPU, or the driver, is not: freeing memory and communicators,
// meeting a rank that is stuck inside the driver. The driver is a fake that stalls when told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <future>
#include <thread>

#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

sk_comm* create(sk_context* context, int rank, int ranks, int timeout_ms) {
  sk_comm_config config = gpu_config(rank, ranks);
  config.timeout_ms = timeout_ms;
  sk_comm* comm = nullptr;
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  return comm;
}

// While a launch cannot begin, neither its memory nor its communicator goes; both say so, and go
// later.
TEST(GpuBounds, FreeingWaitsForLaunchesNoLongerThanToldTo) {
  Machine machine;
  cuda::abi::Stream const stream = machine.fake.make_stream();
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* const comm = create(context, 0, 1, 50);
  void* memory = nullptr;
  ASSERT_EQ(sk_alloc(comm, 64, &memory), SK_OK) << sk_last_error();
  auto* const data = static_cast<float*>(memory);
  data[0] = 3;
  const auto open = machine.hold(stream);
  const sk_run_options options = on_gpu(stream);
  ASSERT_EQ(sk_allreduce(comm, data, data + 1, 1, SK_F32, SK_SUM, &options), SK_OK)
      << sk_last_error();
  const int freed = machine.fake.count(cuda::Call::cuMemFree);
  expect_refused(sk_free(comm, memory), SK_ERR_TIMEOUT,
                 "a launch on Fake H100 had not ended after 0.1 s");
  expect_refused(sk_comm_free(comm), SK_ERR_TIMEOUT,
                 "a launch on Fake H100 had not ended after 0.1 s");
  // The driver would have waited.
  EXPECT_EQ(machine.fake.count(cuda::Call::cuMemFree), freed);
  open();
  machine.fake.synchronize(stream);
  EXPECT_EQ(data[1], 3);  // Nothing was given back.
  EXPECT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

// A rank of a world may be at work before the last one has its communicator, and other libraries at
// any time: making communicators frees nothing, for freeing waits for the whole GPU.
TEST(GpuBounds, MakingCommunicatorsWaitsForNoWorkOfTheGpu) {
  Machine machine;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  const auto open = machine.hold(machine.fake.make_stream());
  std::vector<std::future<sk_comm*>> made;
  for (int rank = 0; rank < 3; ++rank)
    made.push_back(
        std::async(std::launch::async, [=] { return create(context, rank, 3, 30'000); }));
  std::vector<bool> in_time;
  for (const std::future<sk_comm*>& each : made)
    in_time.push_back(each.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  const int freed =
      machine.fake.count(cuda::Call::cuMemFree) + machine.fake.count(cuda::Call::cuMemFreeHost);
  open();
  EXPECT_THAT(in_time, testing::Each(true));
  EXPECT_EQ(freed, 0);
  for (std::future<sk_comm*>& each : made) EXPECT_EQ(sk_comm_free(each.get()), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

// Weights whose packing nobody waits for any more are freed once it has ended.
TEST(GpuBounds, APackingThatCameTooLateIsWaitedForAsWell) {
  Machine machine;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* const comm = create(context, 0, 1, 50);
  void* const memory = machine.take(64);
  const auto open = machine.hold(nullptr);
  sk_tensor b{};
  b.struct_size = sizeof b;
  b.dtype = SK_F32;
  b.data = memory;
  b.ndim = 2;
  b.device_type = SK_DEVICE_CUDA;
  b.shape[0] = b.shape[1] = b.strides[0] = 4;
  b.strides[1] = 1;
  sk_packed* packed = nullptr;
  expect_refused(sk_pack(comm, &b, 0, &packed), SK_ERR_TIMEOUT, "still had work to do");
  const int freed = machine.fake.count(cuda::Call::cuMemFree);
  expect_refused(sk_comm_free(comm), SK_ERR_TIMEOUT, "had not ended after 0.1 s");
  EXPECT_EQ(machine.fake.count(cuda::Call::cuMemFree), freed);
  open();
  machine.fake.synchronize(nullptr);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK);
  machine.fake.free(memory);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

// The driver would wait for the launches that run, without a limit.
TEST(GpuBounds, APlanTooManyIsFreedOnceNoLaunchRuns) {
  Machine machine;
  cuda::abi::Stream const stream = machine.fake.make_stream();
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config = gpu_config(0, 1);
  config.workers = 1;
  sk_comm* comm = nullptr;
  ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  constexpr size_t kKept = 512, kMore = 3;
  auto* const data = static_cast<float*>(machine.take((kKept + kMore + 1) * sizeof(float)));
  const sk_run_options options = on_gpu(stream);
  const auto reduce = [&](size_t count) {
    ASSERT_EQ(sk_allreduce(comm, data, data, count, SK_F32, SK_SUM, &options), SK_OK)
        << sk_last_error();
  };
  const auto plans = [&] {
    sk_comm_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(sk_comm_query(comm, &info), SK_OK);
    return info.plans;
  };
  const auto open = machine.hold(stream);
  for (size_t count = 1; count <= kKept + kMore; ++count) reduce(count);
  EXPECT_EQ(plans(), kKept + kMore);
  open();
  machine.fake.synchronize(stream);
  reduce(kKept + kMore + 1);
  EXPECT_EQ(plans(), kKept);
  machine.fake.synchronize(stream);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK);
  machine.fake.free(data);
}

// A driver whose launches of plans do not return before `gate` is opened.
struct Gate {
  std::promise<void> opened, reached;
  std::shared_future<void> open = opened.get_future().share();
  std::shared_future<void> stuck = reached.get_future().share();
  std::atomic<bool> closed{false};
  cuda::Control* control = nullptr;  // Of the last launch that was let through.
  uint32_t* abort = nullptr;
};
Gate* g_gate = nullptr;
decltype(cuda::Driver::cuLaunchKernelEx) g_launch = nullptr;

void stall_launches(cuda::Driver& driver) {
  g_launch = driver.cuLaunchKernelEx;
  driver.cuLaunchKernelEx = [](const cuda::abi::LaunchConfig* config, cuda::abi::Function function,
                               void** parameters, void** extra) {
    if (config->attribute_count != 0) {
      if (g_gate->closed.exchange(false)) {  // So long that the test has failed by then.
        g_gate->reached.set_value();
        g_gate->open.wait_for(std::chrono::seconds(60));
      } else {
        const auto* const args = static_cast<const cuda::LaunchArgs*>(parameters[0]);
        g_gate->control = args->control;
        g_gate->abort = args->abort;
      }
    }
    return g_launch(config, function, parameters, extra);
  };
}

TEST(GpuBounds, ARankInsideTheDriverIsNamed) {
  Gate gate;
  g_gate = &gate;
  Machine machine(stall_launches);
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::barrier<> all(3);
  std::atomic<int> waited{0}, launched{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm* const comm = create(context, rank, 3, /*timeout_ms=*/4000);
      expect_usable(comm, 3);
      all.arrive_and_wait();
      gate.closed = true;
      all.arrive_and_wait();
      sk_run_options options = on_gpu();
      options.timeout_ms = 1000;
      const sk_status status = sk_barrier(comm, &options);
      const std::string said = sk_last_error();
      if (status == SK_ERR_TIMEOUT) {
        EXPECT_NE(said.find("is inside the driver since"), std::string::npos) << said;
        EXPECT_NE(said.find("in barrier"), std::string::npos) << said;
        // The one inside has the communicator's launch; what it may touch stays.
        expect_refused(sk_comm_free(comm), SK_ERR_TIMEOUT, "a rank was still inside the driver");
        expect_refused(sk_barrier(comm, nullptr), SK_ERR_TIMEOUT, "is inside the driver since");
        if (++waited == 2) gate.opened.set_value();
      } else {
        EXPECT_EQ(status, SK_OK) << said;
        ++launched;
      }
      all.arrive_and_wait();
      EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(waited, 2);
  EXPECT_EQ(launched, 1);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

// A pair is stuck inside the driver, and a kernel of another gives up. That one's ranks hear of it,
// the stuck pair's other rank gives up in its own time, and an abort passes: nobody's wait takes
// the driver's. What the driver then launches does nothing.
TEST(GpuBounds, AKernelThatGaveUpIsHeardOfBesideALaunchThatIsStuck) {
  Gate gate;
  g_gate = &gate;
  Machine machine(stall_launches);
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  auto* const data = static_cast<int32_t*>(machine.take(4 * sizeof(int32_t)));
  for (int i = 0; i < 4; ++i) data[i] = i;
  std::barrier<> all(4);
  std::atomic<int> ended{0}, waited{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm* const comm = create(context, rank, 4, /*timeout_ms=*/4000);
      sk_run_options options = on_gpu();
      options.timeout_ms = 1000;
      const auto pass_on = [&] {
        return rank % 2 == 0 ? sk_send(comm, data + rank, 1, SK_I32, rank + 1, &options)
                             : sk_recv(comm, data + rank, 1, SK_I32, rank - 1, &options);
      };
      if (rank > 1) {
        EXPECT_EQ(pass_on(), SK_OK) << sk_last_error();
        EXPECT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
      }
      all.arrive_and_wait();
      if (rank == 0) gate.closed = true;
      all.arrive_and_wait();
      if (rank < 2) {
        const sk_status status = pass_on();
        const std::string said = sk_last_error();
        if (status != SK_OK) {
          EXPECT_NE(said.find("is inside the driver since"), std::string::npos) << said;
          ++waited;
        }
      } else {
        gate.stuck.wait();
        if (rank == 2) {  // What a kernel does that waits in vain.
          *gate.control = {uint32_t(cuda::Verdict::kTimeout), 2, 0, 0, 3, UINT32_MAX, 1, 0};
          std::atomic_ref(*gate.abort).store(1, std::memory_order_release);
          expect_refused(sk_comm_synchronize(comm, &options), SK_ERR_TIMEOUT,
                         "rank 2 waited 1.0 s for rank 3");
          expect_refused(sk_barrier(comm, &options), SK_ERR_TIMEOUT, "rank 2 waited 1.0 s");
          EXPECT_EQ(sk_comm_abort(comm, "enough"), SK_OK) << sk_last_error();
        }
      }
      if (++ended == 3) gate.opened.set_value();
      all.arrive_and_wait();
      EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(data[1], 1);  // Untouched.
  EXPECT_EQ(data[3], 2);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  machine.fake.free(data);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

}  // namespace
}  // namespace sk::testing_ops
