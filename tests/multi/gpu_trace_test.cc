// Traces of what a GPU runs, through the C ABI. The driver is a fake that runs the kernels on the
// CPU, so their clock is the host's, read by the library as if it were another.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>

#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

struct Span {
  std::string name, call, epilogue;
  int rank, worker, task;
  double begin_us, end_us;
};

struct Trace {
  std::vector<Span> spans;
  long dropped = -1, step_ns = 0, error_ns = 0;

  std::vector<Span> named(const std::string& name) const {
    std::vector<Span> found;
    for (const Span& span : spans)
      if (span.name == name) found.push_back(span);
    return found;
  }
  size_t task_count() const { return spans.size() - named("wait").size(); }
};

sk_status dump(sk_comm* comm, std::string& text) {
  size_t bytes = 0;
  if (const sk_status status = sk_trace_dump(comm, nullptr, 0, &bytes); status != SK_OK)
    return status;
  std::vector<char> buffer(bytes + 1);
  size_t again = 0;
  const sk_status status = sk_trace_dump(comm, buffer.data(), buffer.size(), &again);
  text = buffer.data();
  EXPECT_EQ(again, bytes);  // The second look is as the first.
  return status;
}

Trace parse(const std::string& text) {
  Trace trace;
  for (size_t at = text.find("{\"ph\""); at != std::string::npos;
       at = text.find("{\"ph\"", at + 1)) {
    char name[32] = "", call[128] = "", epilogue[16] = "";
    Span span{};
    double dur = 0;
    const int fields = std::sscanf(
        text.c_str() + at,
        R"({"ph":"X","name":"%31[^"]","pid":%d,"tid":%d,"ts":%lf,"dur":%lf,"args":{"task":%d,"call":"%127[^"]","epilogue":"%15[^"])",
        name, &span.rank, &span.worker, &span.begin_us, &dur, &span.task, call, epilogue);
    EXPECT_EQ(fields, name == std::string("gemm") ? 8 : 7) << text.substr(at, 200);
    span.name = name;
    span.call = call;
    span.epilogue = epilogue;
    span.end_us = span.begin_us + dur;
    trace.spans.push_back(span);
  }
  const size_t tail = text.find("\"dropped\"");
  EXPECT_NE(tail, std::string::npos) << text;
  if (tail != std::string::npos) {
    std::sscanf(text.c_str() + tail,
                "\"dropped\": %ld,\n\"clock\": {\"step_ns\": %ld, \"error_ns\": %ld}",
                &trace.dropped, &trace.step_ns, &trace.error_ns);
  }
  return trace;
}

Trace read(sk_comm* comm) {
  std::string text;
  EXPECT_EQ(dump(comm, text), SK_OK) << sk_last_error();
  return parse(text);
}

double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

void reduce(sk_comm* comm, void* memory, int count, void* stream = nullptr) {
  const sk_run_options options = on_gpu(stream);
  ASSERT_EQ(sk_allreduce(comm, memory, memory, count, SK_F32, SK_SUM, &options), SK_OK)
      << sk_last_error();
}

TEST(GpuTrace, HasTheTasksOfCallsThatWereMadeMeanwhile) {
  Machine machine;
  constexpr int kRanks = 3, kCount = 129;
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &memory), SK_OK) << sk_last_error();
    std::string text;
    ASSERT_EQ(dump(comm, text), SK_OK) << sk_last_error();
    EXPECT_EQ(text, "{\"traceEvents\": [],\n\"dropped\": 0}");
    reduce(comm, memory, 5);
    const double before_us = now_us();
    ASSERT_EQ(sk_trace_start(comm, 0), SK_OK) << sk_last_error();
    reduce(comm, memory, kCount);
    reduce(comm, memory, kCount);
    ASSERT_EQ(sk_trace_stop(comm), SK_OK);
    reduce(comm, memory, 7);
    const Trace trace = read(comm);  // Nobody has synchronised: it waits by itself.
    const double after_us = now_us();

    EXPECT_EQ(trace.dropped, 0);
    EXPECT_GT(trace.step_ns, 0);
    EXPECT_GT(trace.error_ns, 0);
    const double error_us = double(trace.error_ns) * 1e-3;
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
    for (const Span& span : trace.spans) {
      EXPECT_EQ(span.rank, rank);
      EXPECT_LT(span.worker, info.workers);
      EXPECT_EQ(span.call.substr(0, 25), "allreduce(f32, sum, 129, ") << span.call;
      EXPECT_LE(before_us - error_us, span.begin_us);
      EXPECT_LE(span.begin_us, span.end_us);
      EXPECT_LE(span.end_us, after_us + error_us);
    }
    EXPECT_GT(trace.named("reduce").size(), 0u);
    EXPECT_EQ(trace.task_count() % 2, 0u);
    const size_t of_one = trace.task_count() / 2;

    // The first that fit are kept, the others counted; what was there before is forgotten.
    // A task that is left out of the launch has room and no event.
    for (const size_t room : {size_t(2), of_one, of_one + 1}) {
      ASSERT_EQ(sk_trace_start(comm, room), SK_OK) << sk_last_error();
      reduce(comm, memory, kCount);
      reduce(comm, memory, kCount);
      const Trace small = read(comm);
      EXPECT_EQ(small.task_count(), std::min(room, of_one));
      EXPECT_EQ(small.dropped, long(2 * of_one - small.task_count()));
    }
    ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuTrace, IsARanksOwn) {
  Machine machine;
  in_ranks(2, [&](sk_comm* comm, int rank) {
    if (rank == 1) {
      ASSERT_EQ(sk_trace_start(comm, 0), SK_OK) << sk_last_error();
    }
    expect_usable(comm, 2);
    EXPECT_EQ(read(comm).spans.empty(), rank == 0);
    // Calls that move nothing launch nothing.
    for (const Span& span : read(comm).spans) EXPECT_EQ(span.call.substr(0, 9), "allreduce");
  });
}

// Not all products first and all sums behind them: a block adds up each tile of its rank before it
// ends the next one.
TEST(GpuTrace, ShowsThatEachTileIsAddedUpAsItIsComputed) {
  Machine machine;
  constexpr int kRanks = 2, kM = 1500, kN = 600, kK = 24;  // Several tiles a worker.
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    const auto tensor = [](void* data, int rows, int columns, int32_t dtype) {
      sk_tensor t{};
      t.struct_size = sizeof(t);
      t.dtype = dtype;
      t.data = data;
      t.ndim = 2;
      t.device_type = SK_DEVICE_CUDA;
      t.shape[0] = rows;
      t.shape[1] = t.strides[0] = columns;
      t.strides[1] = 1;
      return t;
    };
    void* memory = nullptr;
    constexpr size_t kElements = size_t{kM} * kK + size_t{kK} * kN + size_t{kM} * kN;
    ASSERT_EQ(sk_alloc(comm, kElements * 4, &memory), SK_OK) << sk_last_error();
    auto* const a = static_cast<float*>(memory);
    float* const b = a + kM * kK;
    float* const c = b + kK * kN;
    for (int i = 0; i < kM * kK; ++i) a[i] = float(i % 7 - rank);
    for (int i = 0; i < kK * kN; ++i) b[i] = float(i % 5 - 2);
    sk_tensor ta = tensor(a, kM, kK, SK_F32), tb = tensor(b, kK, kN, SK_F32),
              tc = tensor(c, kM, kN, SK_F32);
    ASSERT_EQ(sk_trace_start(comm, 0), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_allreduce_gemm(comm, &ta, &tb, nullptr, &tc, 0, nullptr), SK_OK)
        << sk_last_error();
    const Trace trace = read(comm);
    const std::vector<Span> tiles = trace.named("gemm");
    const auto added = std::count_if(tiles.begin(), tiles.end(),
                                     [](const Span& tile) { return tile.epilogue == "reduce"; });
    EXPECT_EQ(added * kRanks, long(tiles.size()));  // The others are partial sums for peers.
    EXPECT_TRUE(trace.named("reduce").empty());     // Sums that no product is part of.
    const auto before_another = std::count_if(tiles.begin(), tiles.end(), [&](const Span& tile) {
      return tile.epilogue == "reduce" &&
             std::any_of(tiles.begin(), tiles.end(), [&](const Span& later) {
               return later.worker == tile.worker && later.task > tile.task &&
                      later.end_us >= tile.end_us;
             });
    });
    sk_comm_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
    EXPECT_GT(added, info.workers);
    EXPECT_GE(before_another, added - info.workers);  // All but the last one of each queue.
    ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
}

// What a graph repeats would be written where later launches' times are, or to memory that is gone.
TEST(GpuTrace, LeavesOutWhatAGraphRepeats) {
  Machine machine;
  cuda::abi::Stream const stream = machine.fake.make_stream();
  std::barrier<> all(2);
  std::shared_ptr<cuda::FakeDriver::Graph> graph;
  in_ranks(2, [&](sk_comm* comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 64, &memory), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_trace_start(comm, 0), SK_OK) << sk_last_error();
    reduce(comm, memory, 16, stream);
    const size_t of_one = read(comm).task_count();
    all.arrive_and_wait();
    if (rank == 0) machine.fake.begin_capture(stream);
    all.arrive_and_wait();
    reduce(comm, memory, 16, stream);
    all.arrive_and_wait();
    if (rank == 0) {
      graph = machine.fake.end_capture(stream);
      ASSERT_NE(graph, nullptr);
      machine.fake.replay(*graph, stream);
    }
    all.arrive_and_wait();
    EXPECT_EQ(read(comm).task_count(), of_one);
    reduce(comm, memory, 16, stream);
    EXPECT_EQ(read(comm).task_count(), 2 * of_one);
    ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
}

// A launch that waits behind other work: what a dump says meanwhile, and once it has run.
// `careless`: a driver by which all has always ended, as if the library did not wait.
std::string dump_beside_a_launch(bool careless) {
  Machine machine([careless](cuda::Driver& driver) {
    if (careless) driver.cuEventQuery = [](auto...) { return cuda::abi::Result(0); };
  });
  cuda::abi::Stream const stream = machine.fake.make_stream();
  sk_context* context = nullptr;
  EXPECT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config = gpu_config(0, 1);
  config.timeout_ms = 50;
  sk_comm* comm = nullptr;
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_trace_start(comm, 0), SK_OK) << sk_last_error();
  const auto open = machine.hold(stream);
  // Of a rank alone, so from one place to another, else there is nothing to do.
  auto* const memory = static_cast<float*>(machine.take(2 * 64));
  const sk_run_options options = on_gpu(stream);
  EXPECT_EQ(sk_allreduce(comm, memory, memory + 16, 16, SK_F32, SK_SUM, &options), SK_OK);
  std::string text;
  const sk_status status = dump(comm, text);
  const std::string said = status == SK_OK ? "" : sk_last_error();
  open();
  machine.fake.synchronize(stream);
  const bool whole = read(comm).task_count() > 0;
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  machine.fake.free(memory);
  if (status == SK_OK) return "a dump did not wait for the launch";
  EXPECT_EQ(status, SK_ERR_TIMEOUT);
  return whole ? said : "the trace stayed empty";
}

TEST(GpuTrace, IsReadOnceTheLaunchesHaveEnded) {
  EXPECT_EQ(dump_beside_a_launch(false), "a launch on Fake H100 had not ended after 0.1 s");
}

TEST(GpuTrace, ThatIsReadTooEarlyIsNoticed) {
  EXPECT_EQ(dump_beside_a_launch(true), "a dump did not wait for the launch");
}

}  // namespace
}  // namespace sk::testing_ops
