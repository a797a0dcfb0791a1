// Ends that are bounded although the GPU, or the driver, is not: freeing memory and communicators,
// meeting a rank that is stuck inside the driver. The driver is a fake that stalls when told to.
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

// A driver whose launches of plans do not return before `gate` is opened.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
  std::atomic<bool> closed{false};
};
Gate* g_gate = nullptr;
decltype(cuda::Driver::cuLaunchKernelEx) g_launch = nullptr;

void stall_launches(cuda::Driver& driver) {
  g_launch = driver.cuLaunchKernelEx;
  driver.cuLaunchKernelEx = [](const cuda::abi::LaunchConfig* config, cuda::abi::Function function,
                               void** parameters, void** extra) {
    if (config->attribute_count != 0 && g_gate->closed) g_gate->open.wait();
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

}  // namespace
}  // namespace sk::testing_ops
