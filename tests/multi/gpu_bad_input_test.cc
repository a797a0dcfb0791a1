// What goes wrong on a GPU, through the C ABI: each is a sentence, in time, on every rank that it
// concerns; what changes nothing leaves the communicator usable. The driver is a fake.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>

#include "tests/multi/gpu_world.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using cuda::Call;

// A rank's own memory on the GPU, and what it must not pass.
struct Places {
  void* gpu;
  void* elsewhere;  // Of GPU 1.
  void* pinned;
  float* host;
};

struct BadCall {
  const char* name;
  int32_t code;
  const char* word;
  std::function<sk_status(sk_comm*, const Places&)> call;
};

sk_status allreduce(sk_comm* comm, void* in, void* out, const sk_run_options* options = nullptr) {
  return sk_allreduce(comm, in, out, 4, SK_F32, SK_SUM, options);
}

void* at(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }

sk_tensor matrix(void* data, int32_t device_type, int32_t dtype = SK_F32) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = dtype;
  t.data = data;
  t.ndim = 2;
  t.device_type = device_type;
  t.shape[0] = t.shape[1] = t.strides[0] = 4;
  t.strides[1] = 1;
  return t;
}

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls = {
      {"memory of the host", SK_ERR_INVALID_ARGUMENT, "is memory of the host; memory of GPU 0",
       [](sk_comm* c, const Places& p) { return allreduce(c, p.host, p.gpu); }},
      {"output on the host", SK_ERR_INVALID_ARGUMENT, "out at 0x",
       [](sk_comm* c, const Places& p) { return allreduce(c, p.gpu, p.host); }},
      {"pinned memory", SK_ERR_INVALID_ARGUMENT, "is memory of the host",
       [](sk_comm* c, const Places& p) { return allreduce(c, p.pinned, p.gpu); }},
      {"memory of another GPU", SK_ERR_INVALID_ARGUMENT, "memory of GPU 1; memory of GPU 0 is due",
       [](sk_comm* c, const Places& p) { return allreduce(c, p.gpu, p.elsewhere); }},
      {"null", SK_ERR_INVALID_ARGUMENT, "in is null",
       [](sk_comm* c, const Places& p) { return allreduce(c, nullptr, p.gpu); }},
      {"misaligned", SK_ERR_INVALID_ARGUMENT, "not aligned",
       [](sk_comm* c, const Places& p) { return allreduce(c, at(p.gpu, 1), at(p.gpu, 64)); }},
      {"overlap", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, const Places& p) { return allreduce(c, p.gpu, at(p.gpu, 4)); }},
      {"options for another GPU", SK_ERR_INVALID_ARGUMENT,
       "device 2:1; the communicator is on GPU 0 (2:0)",
       [](sk_comm* c, const Places& p) {
         sk_run_options options = on_gpu();
         options.device_id = 1;
         return allreduce(c, p.gpu, p.gpu, &options);
       }},
      {"a tensor on the CPU", SK_ERR_INVALID_ARGUMENT, "b is on device 0:0; the communicator is on",
       [](sk_comm* c, const Places& p) {
         sk_tensor a = matrix(p.gpu, SK_DEVICE_CUDA), b = matrix(p.host, SK_DEVICE_CPU),
                   out = matrix(at(p.gpu, 64), SK_DEVICE_CUDA);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &out, 0, nullptr);
       }},
      {"a tensor that says it is not on the CPU", SK_ERR_INVALID_ARGUMENT, "a at 0x",
       [](sk_comm* c, const Places& p) {
         sk_tensor a = matrix(p.host, SK_DEVICE_CUDA), b = matrix(at(p.gpu, 128), SK_DEVICE_CUDA),
                   out = matrix(at(p.gpu, 64), SK_DEVICE_CUDA);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &out, 0, nullptr);
       }},
      {"weights of the host", SK_ERR_INVALID_ARGUMENT, "b at 0x",
       [](sk_comm* c, const Places& p) {
         const sk_tensor b = matrix(p.host, SK_DEVICE_CUDA);
         sk_packed* packed = nullptr;
         return sk_pack(c, &b, 0, &packed);
       }},
      {"weights that no kernel multiplies", SK_ERR_UNSUPPORTED, "matrices of f64 on a GPU",
       [](sk_comm* c, const Places& p) {
         const sk_tensor b = matrix(p.gpu, SK_DEVICE_CUDA, SK_F64);
         sk_packed* packed = nullptr;
         return sk_pack(c, &b, 0, &packed);
       }},
      {"a trace of more events than there is memory", SK_ERR_NO_MEMORY, "sk_trace_start() needs",
       [](sk_comm* c, const Places&) { return sk_trace_start(c, uint64_t(1) << 40); }},
      {"a trace of as many events as can be said", SK_ERR_NO_MEMORY, "sk_trace_start() needs",
       [](sk_comm* c, const Places&) { return sk_trace_start(c, UINT64_MAX); }},
      {"free foreign", SK_ERR_INVALID_ARGUMENT, "was not returned by sk_alloc()",
       [](sk_comm* c, const Places& p) { return sk_free(c, p.gpu); }},
      {"register memory of the host", SK_ERR_INVALID_ARGUMENT, "memory at 0x",
       [](sk_comm* c, const Places& p) { return sk_register(c, p.host, 64); }},
      {"deregister unknown", SK_ERR_INVALID_ARGUMENT, "is not registered",
       [](sk_comm* c, const Places& p) { return sk_deregister(c, p.gpu); }},
      {"synchronize another GPU", SK_ERR_INVALID_ARGUMENT, "device 2:1",
       [](sk_comm* c, const Places&) {
         sk_run_options options = on_gpu();
         options.device_id = 1;
         return sk_comm_synchronize(c, &options);
       }},
  };
  return calls;
}

// One rank's mistake is its own: it tells nobody, nobody waits for ever, and the next call works.
TEST(GpuBadInput, IsASentenceAndChangesNothing) {
  Machine machine;
  machine.fake.gpus.resize(2);
  in_ranks(2, [&](sk_comm* comm, int) {
    alignas(64) float host[64] = {};
    const Places places = {machine.take(256), machine.take(256, 1), machine.take(256, -1), host};
    for (const BadCall& bad : bad_calls()) {
      SCOPED_TRACE(bad.name);
      expect_refused(bad.call(comm, places), bad.code, bad.word);
      expect_usable(comm, 2);
    }
    sk_run_options options = on_gpu(machine.fake.make_stream(1));
    expect_refused(allreduce(comm, places.gpu, places.gpu, &options), SK_ERR_INVALID_ARGUMENT,
                   "not of GPU 0's primary context");
    expect_usable(comm, 2);
    options.stream = cuda::abi::per_thread_stream();
    expect_refused(allreduce(comm, places.gpu, places.gpu, &options), SK_ERR_INVALID_ARGUMENT,
                   "per-thread default stream, which is another one in each thread");
    expect_usable(comm, 2, cuda::abi::legacy_stream());  // Null by its other name.
    for (void* memory : {places.gpu, places.elsewhere, places.pinned}) machine.fake.free(memory);
  });
}

// What all ranks must hear: nothing is launched, and all may go on.
TEST(GpuBadInput, OfAllRanksIsToldToAll) {
  Machine machine;
  std::barrier<> all(2);
  in_ranks(2, [&](sk_comm* comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 1024, &memory), SK_OK) << sk_last_error();
    expect_usable(comm, 2);
    const int launches = machine.fake.count(Call::cuLaunchKernelEx);
    all.arrive_and_wait();

    // Other kinds, counts and types: both calls are named, to both ranks.
    const sk_status kinds = rank == 0 ? allreduce(comm, memory, memory)
                                      : sk_broadcast(comm, memory, memory, 4, SK_F32, 1, nullptr);
    expect_refused(kinds, SK_ERR_DESYNC, "rank 0 called allreduce(f32, sum, 4");
    EXPECT_NE(std::strstr(sk_last_error(), "while rank 1 called broadcast(f32, 4, root 1"), nullptr)
        << sk_last_error();
    expect_refused(sk_allreduce(comm, memory, memory, 4 + rank, SK_F32, SK_SUM, nullptr),
                   SK_ERR_DESYNC, "rank 1 called allreduce(f32, sum, 5");
    void* more = nullptr;
    expect_refused(sk_alloc(comm, 64 + uint64_t(rank), &more), SK_ERR_DESYNC,
                   "alloc(64 bytes) while rank 1 called alloc(65 bytes)");
    EXPECT_EQ(more, nullptr);

    sk_tensor a = matrix(memory, SK_DEVICE_CUDA, SK_F64),
              b = matrix(at(memory, 128), SK_DEVICE_CUDA, SK_F64),
              c = matrix(at(memory, 256), SK_DEVICE_CUDA, SK_F64);
    expect_refused(sk_allreduce_gemm(comm, &a, &b, nullptr, &c, 0, nullptr), SK_ERR_UNSUPPORTED,
                   "matrices of f64 on a GPU");
    expect_refused(sk_alloc(comm, uint64_t(65) << 20, &more), SK_ERR_NO_MEMORY,
                   "sk_alloc() needs 68157440 bytes on the GPU");
    all.arrive_and_wait();
    EXPECT_EQ(machine.fake.count(Call::cuLaunchKernelEx), launches);
    all.arrive_and_wait();
    expect_usable(comm, 2);
    ASSERT_EQ(sk_free(comm, memory), SK_OK);
  });
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuBadInput, OneRanksLackOfMemoryIsTheOthersToo) {
  Machine machine;
  machine.fake.gpus[0].memory_bytes = 1 << 20;
  in_ranks(2, [&](sk_comm* comm, int) {
    void* memory = nullptr;
    // Only one of them can have so much; which one is left to chance.
    const sk_status status = sk_alloc(comm, 700 << 10, &memory);
    EXPECT_EQ(status, SK_ERR_NO_MEMORY) << sk_last_error();
    expect_usable(comm, 2);
  });
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuFailures, ARankThatNeverComesIsNamed) {
  Machine machine;
  std::barrier<> all(4);
  in_ranks(4, [&](sk_comm* comm, int rank) {
    expect_usable(comm, 4);
    sk_run_options options = on_gpu();
    options.timeout_ms = rank == 0 ? 50 : 60'000;
    // Rank 2 is busy elsewhere until all others have given up.
    if (rank != 2) {
      const sk_status status = sk_barrier(comm, &options);
      expect_refused(status, SK_ERR_TIMEOUT, "rank 0 waited 0.1 s for rank 2 in barrier");
    }
    all.arrive_and_wait();
    expect_refused(sk_barrier(comm, &options), SK_ERR_TIMEOUT, "rank 0 waited");
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
    EXPECT_EQ(info.over, SK_ERR_TIMEOUT);
  });
}

TEST(GpuFailures, AnAbortEndsWaitsAndLaterCalls) {
  Machine machine;
  std::barrier<> all(3);
  in_ranks(3, [&](sk_comm* comm, int rank) {
    expect_usable(comm, 3);
    if (rank == 2) {
      ASSERT_EQ(sk_comm_abort(comm, "no more"), SK_OK);
    } else {
      expect_refused(sk_barrier(comm, nullptr), SK_ERR_ABORTED, "rank 2 has aborted: no more");
    }
    all.arrive_and_wait();
    expect_refused(sk_barrier(comm, nullptr), SK_ERR_ABORTED, "rank 2 has aborted: no more");
    expect_refused(sk_comm_synchronize(comm, nullptr), SK_ERR_ABORTED, "rank 2 has aborted");
  });
}

// The launch is under way, behind work that does not end yet; the calls have returned.
TEST(GpuFailures, AnAbortReachesALaunchThatWasMade) {
  Machine machine;
  cuda::abi::Stream const stream = machine.fake.make_stream();
  std::barrier<> all(2);
  std::function<void()> open;
  in_ranks(2, [&](sk_comm* comm, int rank) {
    const sk_run_options options = on_gpu(stream);
    expect_usable(comm, 2, stream);
    all.arrive_and_wait();  // sk_free() waits for the GPU.
    if (rank == 0) open = machine.hold(stream);
    all.arrive_and_wait();
    ASSERT_EQ(sk_barrier(comm, &options), SK_OK) << sk_last_error();
    all.arrive_and_wait();
    if (rank == 1) {
      ASSERT_EQ(sk_comm_abort(comm, ""), SK_OK);
      open();
    }
    expect_refused(sk_comm_synchronize(comm, &options), SK_ERR_ABORTED, "abort");
  });
}

TEST(GpuFailures, ARankThatHasLeftIsNamed) {
  Machine machine;
  std::barrier<> all(2);
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const sk_comm_config config = gpu_config(rank, 2);
      sk_comm* comm = nullptr;
      ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
      expect_usable(comm, 2);
      all.arrive_and_wait();
      if (rank == 0) {
        expect_refused(sk_barrier(comm, nullptr), SK_ERR_PEER_LOST,
                       "rank 1 has freed the communicator");
      }
      EXPECT_EQ(sk_comm_free(comm), SK_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

// The GPU fails behind the caller's back: later calls say so, and so does the query.
TEST(GpuFailures, ACrashOfTheGpuIsSaidLate) {
  Machine machine;
  std::barrier<> all(2);
  in_ranks(2, [&](sk_comm* comm, int rank) {
    expect_usable(comm, 2);
    if (rank == 0) machine.fake.crash_next_launch(cuda::abi::kIllegalAddress);
    all.arrive_and_wait();
    const sk_status enqueued = sk_barrier(comm, nullptr);
    EXPECT_TRUE(enqueued == SK_OK || enqueued == SK_ERR_DEVICE) << sk_last_error();
    expect_refused(sk_comm_synchronize(comm, nullptr), SK_ERR_DEVICE, "must be restarted");
    all.arrive_and_wait();
    expect_refused(sk_barrier(comm, nullptr), SK_ERR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
    EXPECT_EQ(info.over, SK_ERR_DEVICE);
  });
}

// ---- creation ---------------------------------------------------------------------------------

sk_status create(sk_comm_config config) {
  sk_context* context = nullptr;
  EXPECT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* comm = nullptr;
  const sk_status status = sk_comm_create(context, &config, &comm);
  if (status == SK_OK) {
    EXPECT_EQ(sk_comm_free(comm), SK_OK);
  }
  EXPECT_EQ(sk_finalize(context), SK_OK);
  return status;
}

TEST(GpuCreation, SaysWhatTheMachineLacks) {
  expect_refused(create(gpu_config(0, 1)), SK_ERR_UNSUPPORTED, "libcuda-of-no-machine.so");
  // The CPU needs none of it.
  sk_comm_config config = gpu_config(0, 1);
  config.device_type = SK_DEVICE_CPU;
  EXPECT_EQ(create(config), SK_OK) << sk_last_error();
  {
    Machine machine;
    config = gpu_config(0, 1);
    EXPECT_EQ(create(config), SK_OK) << sk_last_error();
    config.device_id = 1;
    expect_refused(create(config), SK_ERR_INVALID_ARGUMENT, "GPU 1: the driver has 1 here");
    config = gpu_config(0, 1);
    config.workers = 9;
    expect_refused(create(config), SK_ERR_UNSUPPORTED, "8 workers can be resident at once");
  }
  Machine machine;
  machine.fake.version = 12080;
  expect_refused(create(gpu_config(0, 1)), SK_ERR_UNSUPPORTED, "CUDA 12.8");
}

TEST(GpuCreation, ChecksItsArguments) {
  Machine machine;
  sk_comm_config config = gpu_config(0, 1);
  config.device_type = 1;
  expect_refused(create(config), SK_ERR_INVALID_ARGUMENT, "config.device_type is 1");
  config.device_type = SK_DEVICE_CUDA;
  config.device_id = -1;
  expect_refused(create(config), SK_ERR_INVALID_ARGUMENT, "config.device_id is -1");
  config.device_type = SK_DEVICE_CPU;
  config.device_id = 1;
  expect_refused(create(config), SK_ERR_INVALID_ARGUMENT, "config.device_id is 1");
  // A caller that was compiled before there were GPUs.
  config = gpu_config(0, 1);
  config.struct_size = offsetof(sk_comm_config, device_type);
  EXPECT_EQ(create(config), SK_OK) << sk_last_error();
  EXPECT_EQ(machine.fake.count(Call::cuInit), 0);
}

TEST(GpuCreation, TakesThreadsOfOneProcess) {
  Machine machine;
  sk_comm_config config = gpu_config(0, 2);
  config.bootstrap = SK_BOOTSTRAP_CALLBACK;
  config.allgather = [](void*, const void*, size_t, void*) -> int32_t { return 1; };
  expect_refused(create(config), SK_ERR_UNSUPPORTED, "threads of one process");
  // A world of one is one, however it was found.
  config = gpu_config(0, 1);
  config.bootstrap = SK_BOOTSTRAP_AUTO;
  EXPECT_EQ(create(config), SK_OK) << sk_last_error();
}

// What each of two ranks gets that want `first` and `second`.
void create_two(const sk_comm_config& first, const sk_comm_config& second, int32_t code,
                const std::string& word) {
  std::thread other([&] { expect_refused(create(second), code, word); });
  expect_refused(create(first), code, word);
  other.join();
}

TEST(GpuCreation, TellsAllRanksWhyThereIsNoGroup) {
  Machine machine;
  machine.fake.gpus.resize(2);
  sk_comm_config first = gpu_config(0, 2), second = gpu_config(1, 2);
  second.device_id = 1;
  create_two(first, second, SK_ERR_UNSUPPORTED, "the ranks of a communicator share one");
  second.device_id = 0;
  first.workers = 5;
  create_two(first, second, SK_ERR_UNSUPPORTED,
             "2 ranks with 5 workers each; on GPU 0 (Fake H100)");
  first.workers = 0;
  machine.fake.gpus[0].multiprocessors = 1;
  create_two(first, second, SK_ERR_UNSUPPORTED, "1 workers can be resident at once");
}

TEST(GpuCreation, OfARankOnTheCpuIsRefused) {
  Machine machine;
  sk_comm_config first = gpu_config(0, 2), second = gpu_config(1, 2);
  second.device_type = SK_DEVICE_CPU;
  first.timeout_ms = second.timeout_ms = 5'000;
  std::thread other([&] { EXPECT_NE(create(second), SK_OK); });
  EXPECT_NE(create(first), SK_OK);
  other.join();
}

// They are registered all the same, for the context's communicators on CPUs.
TEST(GpuTiles, OfUsersAreNotThereYet) {
  Machine machine;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  const sk_comm_config config = gpu_config(0, 1);
  sk_comm* comm = nullptr;
  ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  testing_support::OwnTile tile(
      "copied",
      [](void* const*, const sk_tile_view*, const sk_tile_value*, void*) -> int32_t { return 0; });
  tile.reads("x", "f32", "m").writes("y", "x", "m").does("y[i] = x[i]");
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context, tile.get(), &op), SK_OK) << sk_last_error();
  const testing_support::OwnArgs args(
      {matrix(nullptr, SK_DEVICE_CUDA), matrix(nullptr, SK_DEVICE_CUDA)});
  expect_refused(sk_call(comm, op, args.get(), nullptr), SK_ERR_UNSUPPORTED,
                 "local operations run on the CPU so far, not on a GPU");
  sk_op* kept = nullptr;
  expect_refused(sk_op_create(comm, op, args.get(), &kept), SK_ERR_UNSUPPORTED,
                 "local operations run on the CPU so far, not on a GPU");
  expect_usable(comm, 1);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

}  // namespace
}  // namespace sk::testing_ops
