#include "tests/multi/gpu_world.h"

#include <future>
#include <memory>
#include <vector>

#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

const cuda::Runtime* g_runtime = nullptr;  // Of the machine that lives.

}  // namespace

Machine::Machine(const std::function<void(cuda::Driver&)>& change) {
  if (change) change(fake.runtime().driver);
  g_runtime = &fake.runtime();
}
Machine::~Machine() { g_runtime = nullptr; }

Gpu Machine::gpu(bool streams) {
  std::vector<cuda::abi::Stream> own;
  for (int rank = 0; rank < kRanksMax; ++rank)
    own.push_back(streams ? fake.make_stream() : nullptr);
  return {.id = 0,
          .take = [this](size_t bytes) { return take(bytes); },
          .give_back = [this](void* memory) { fake.free(memory); },
          .stream = [own](int rank) -> void* { return own[size_t(rank)]; }};
}

std::function<void()> Machine::hold(void* stream) {
  const auto gate = std::make_shared<std::promise<void>>();
  const std::shared_future<void> opened = gate->get_future().share();
  cuda::FakeDriver::Graph graph;
  graph.nodes.emplace_back([opened] { opened.wait(); });
  fake.replay(graph, static_cast<cuda::abi::Stream>(stream));
  return [gate] { gate->set_value(); };
}

sk_comm_config gpu_config(int rank, int ranks) {
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.rank = rank;
  config.world_size = ranks;
  config.timeout_ms = 120'000;
  config.device_type = SK_DEVICE_CUDA;
  return config;
}

void in_ranks(int ranks, const Body& body) {
  in_thread_ranks(ranks, body, [](sk_comm_config& config) {
    config.device_type = SK_DEVICE_CUDA;
    config.symmetric_bytes_max = 0;
  });
}

sk_run_options on_gpu(void* stream) {
  sk_run_options options{};
  options.struct_size = sizeof(options);
  options.device_type = SK_DEVICE_CUDA;
  options.stream = stream;
  return options;
}

void expect_usable(sk_comm* comm, int ranks, void* stream) {
  constexpr int kCount = 37;
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
  void* memory = nullptr;
  ASSERT_EQ(sk_alloc(comm, 2 * kCount * sizeof(float), &memory), SK_OK) << sk_last_error();
  auto* in = static_cast<float*>(memory);
  float* out = in + kCount;
  for (int i = 0; i < kCount; ++i) {
    in[i] = float(i + info.rank);
    out[i] = -1;
  }
  const sk_run_options options = on_gpu(stream);
  ASSERT_EQ(sk_allreduce(comm, in, out, kCount, SK_F32, SK_SUM, &options), SK_OK)
      << sk_last_error();
  ASSERT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
  const int of_ranks = ranks * (ranks - 1) / 2;
  for (int i = 0; i < kCount; ++i)
    ASSERT_EQ(out[i], float(i * ranks + of_ranks)) << "element " << i;
  ASSERT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
}

void expect_refused(sk_status status, int32_t code, const std::string& word) {
  EXPECT_STREQ(sk_status_name(status), sk_status_name(code)) << sk_last_error();
  EXPECT_NE(std::string(sk_last_error()).find(word), std::string::npos)
      << "'" << sk_last_error() << "' does not say '" << word << "'";
}

}  // namespace sk::testing_ops

namespace sk::cuda {

// The linker takes this one, so cuda/exec/runtime.cpp stays out of the program.
Result<Runtime> load_runtime() {
  if (testing_ops::g_runtime == nullptr)
    return std::move(load_driver("libcuda-of-no-machine.so").status());
  return *testing_ops::g_runtime;
}

}  // namespace sk::cuda
