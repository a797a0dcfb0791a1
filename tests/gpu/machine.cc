#include "tests/gpu/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tests/devhost/kernels.h"
#include "tests/gpu/fake_calls.h"
#include "tests/gpu/fault.h"

namespace sk::cuda {
namespace {

// As many as 16 ranks of two workers take; tests and benchmarks use no more than 8 where they may
// choose, for each is a dozen threads of the CPU.
constexpr int kFakeMultiprocessors = 32;
constexpr uint32_t kFakeWorkers = 8;
constexpr uint64_t kFakeMemoryBytes = 1 << 30;

Calls real_calls() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // Loaded before, by the library.
  Calls calls;
#define SK_LOAD(name, symbol, ...)                                            \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(handle, symbol)); \
  if (calls.name == nullptr) throw std::runtime_error("the driver has no " symbol);
  SK_CUDA_CALLERS_FUNCTIONS(SK_LOAD)
#undef SK_LOAD
  return calls;
}

// Beside this program.
std::string watched_library() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path() / "libsk_cuda_watched.so.0";
}

int64_t wanted_patience_ns(bool is_real) {
  constexpr double kLongestS = 3600;
  const char* wish = std::getenv("SK_GPU_WAIT_S");
  if (wish == nullptr) return is_real ? 5'000'000'000 : 60'000'000'000;
  char* end = nullptr;
  const double seconds = std::strtod(wish, &end);
  if (end == wish || *end != '\0' || !(seconds > 0 && seconds <= kLongestS)) {
    throw std::runtime_error(
        fmt::format("SK_GPU_WAIT_S is {}; seconds above 0 and up to {} are due", wish, kLongestS));
  }
  return int64_t(seconds * 1e9);
}

}  // namespace

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

Machine& Machine::get() {
  static Machine& machine = *new Machine;  // Never destroyed: a driver does not outlive main().
  return machine;
}

Machine::Machine() {
  const char* wish = std::getenv("SK_GPU");
  const std::string wanted = wish != nullptr ? wish : "";
  if (wanted == "fake") {
    reason_ = "a fake GPU was asked for";
  } else {
    Result<Runtime> real = load_runtime();
    is_real_ = real.ok();
    if (is_real_ && devhost::kWatched) real->kernels = must(load_bundle(watched_library()));
    if (is_real_)
      runtime_ = std::make_unique<Runtime>(std::move(real).value());
    else
      reason_ = real.status().message();
    if (!is_real_ && wanted == "real") throw std::runtime_error(reason_);
  }
  if (!is_real_) take_fake();
  patience_ns_ = wanted_patience_ns(is_real_);
  device_ = must(Device::open(*runtime_, 0));
  current_ = std::make_unique<Current>(device_->driver(), device_->context());
  if (is_real_) calls_ = real_calls();
  check(device_->driver().cuStreamCreate(&stream_, abi::kStreamNonBlocking), "cuStreamCreate");
  if (!is_real_) plant_fault(*std::static_pointer_cast<FakeDriver>(fake_));
}

void Machine::take_fake() {
  auto fake = std::make_shared<FakeDriver>();
  fake->gpus[0].multiprocessors = kFakeMultiprocessors;
  fake->gpus[0].memory_bytes = kFakeMemoryBytes;
  runtime_ = std::make_unique<Runtime>(fake->runtime());
  calls_ = fake_calls(*fake);
  fake_ = fake;
}

uint32_t Machine::workers(uint32_t ranks) const {
  return std::max(1u, used(device_->multiprocessors()) / ranks);
}

uint32_t Machine::pair_workers(uint32_t ranks) const {
  return used(device_->kernel(kRunPairsBf16).blocks_max) / kPairBlocks / ranks;
}

uint32_t Machine::used(uint32_t blocks) const {
  return is_real_ ? blocks : std::min(blocks, kFakeWorkers);
}

uint64_t Machine::free_bytes() const {
  size_t free = 0, total = 0;
  check(device_->driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return free;
}

void Machine::synchronize() const {
  check(device_->driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

void Machine::check(abi::Result result, const char* call) const {
  must(device_->check(result, call));
}

Replay::Replay(const Machine& machine, const std::function<void()>& enqueue) : machine_(machine) {
  const Calls& calls = machine.calls();
  machine.check(calls.cuStreamBeginCapture(machine.stream(), abi::kCaptureRelaxed),
                "cuStreamBeginCapture");
  try {
    enqueue();
  } catch (...) {  // Else nothing else could be done on that stream.
    calls.cuStreamEndCapture(machine.stream(), &graph_);
    if (graph_ != nullptr) calls.cuGraphDestroy(graph_);
    throw;
  }
  machine.check(calls.cuStreamEndCapture(machine.stream(), &graph_), "cuStreamEndCapture");
  machine.check(calls.cuGraphInstantiate(&exec_, graph_, 0), "cuGraphInstantiate");
}

Replay::~Replay() {
  if (exec_ != nullptr) machine_.calls().cuGraphExecDestroy(exec_);
  if (graph_ != nullptr) machine_.calls().cuGraphDestroy(graph_);
}

void Replay::launch() const {
  machine_.check(machine_.calls().cuGraphLaunch(exec_, machine_.stream()), "cuGraphLaunch");
}

}  // namespace sk::cuda
