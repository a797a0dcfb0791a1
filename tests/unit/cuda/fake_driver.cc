#include "tests/unit/cuda/fake_driver.h"

#include <cassert>

#include "tests/devhost/kernels.h"
#include "tests/unit/cuda/fake_driver_calls.h"

namespace sk::cuda {

FakeDriver::FakeDriver() : state_(std::make_unique<State>()) {
  assert(g_fake == nullptr);
  g_fake = this;
#define SK_ENTRY(name, symbol, ...) \
  FakeCalls::fill<Call::name, &FakeCalls::name>(runtime_.driver.name);
  SK_CUDA_DRIVER_FUNCTIONS(SK_ENTRY)
  SK_CUDA_LATER_FUNCTIONS(SK_ENTRY)
#undef SK_ENTRY
  static const char image[] = "kernels";
  runtime_.kernels = {kKernelInterface, 13000, image, sizeof image, devhost::kWatched};
}

FakeDriver::~FakeDriver() {
  for (const auto& stream : state_->streams)
    if (stream->last.valid()) stream->last.wait();
  for (const auto& [at, each] : state_->allocations) std::free(memory_at(at));
  g_fake = nullptr;
}

void FakeDriver::fail(Call call, abi::Result result, int skip) {
  state_->faults[call] = {skip, result};
}
void FakeDriver::crash_next_launch(abi::Result result) { state_->crash = result; }

void FakeDriver::at_next_launch(std::function<void()> act) { state_->at_launch = std::move(act); }
void FakeDriver::hang_next_launch() { state_->hangs = true; }

void FakeDriver::at_each_launch(std::function<void(const std::string&)> act) {
  const std::lock_guard lock(state_->mutex);
  state_->at_each = std::move(act);
}

int FakeDriver::count(Call call) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->counts.find(call);
  return found == state_->counts.end() ? 0 : found->second;
}

std::string FakeDriver::last_kernel() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last_kernel;
}

int FakeDriver::lazy_loads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lazy_loads;
}

void* FakeDriver::allocate(int gpu, size_t bytes, bool managed) {
  const std::lock_guard lock(state_->mutex);
  return state_->allocate(gpu, bytes, managed);
}
void FakeDriver::free(void* memory) {
  const std::lock_guard lock(state_->mutex);
  state_->allocations.erase(reinterpret_cast<uint64_t>(memory));
  std::free(memory);
}
abi::Stream FakeDriver::make_stream(int gpu) {
  const std::lock_guard lock(state_->mutex);
  while (state_->contexts.size() <= size_t(gpu))
    state_->contexts.push_back(
        std::make_unique<abi::ContextOpaque>(abi::ContextOpaque{int(state_->contexts.size()), 0}));
  state_->streams.push_back(std::make_unique<abi::StreamOpaque>());
  state_->streams.back()->context = state_->contexts[size_t(gpu)].get();
  return state_->streams.back().get();
}
void FakeDriver::begin_capture(abi::Stream stream) {
  const std::lock_guard lock(state_->mutex);
  stream->status = abi::kCapturing;
  stream->graph = std::make_shared<Graph>();
}
std::shared_ptr<FakeDriver::Graph> FakeDriver::end_capture(abi::Stream stream) {
  const std::lock_guard lock(state_->mutex);
  const bool sound = std::exchange(stream->status, abi::kNotCapturing) == abi::kCapturing;
  return sound ? std::move(stream->graph) : nullptr;
}
void FakeDriver::replay(const Graph& graph, abi::Stream stream) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& launch : graph.nodes) state_->enqueue(state_->stream(stream), launch);
}
void FakeDriver::invalidate_capture(abi::Stream stream) {
  const std::lock_guard lock(state_->mutex);
  stream->status = abi::kCaptureInvalidated;
}
void FakeDriver::synchronize(abi::Stream stream) {
  std::shared_future<void> last;
  {
    const std::lock_guard lock(state_->mutex);
    last = state_->stream(stream).last;
  }
  if (last.valid()) last.wait();
}
void FakeDriver::copy(abi::DevicePtr to, abi::DevicePtr from, size_t bytes, abi::Stream stream) {
  const std::lock_guard lock(state_->mutex);
  FakeCalls::begin(stream, [=] { std::memcpy(memory_at(to), memory_at(from), bytes); });
}
double FakeDriver::elapsed_ms(abi::Event from, abi::Event to) {
  from->done.wait();
  to->done.wait();
  return std::chrono::duration<double, std::milli>(*to->at - *from->at).count();
}
uint64_t FakeDriver::allocated_bytes() const {
  const std::lock_guard lock(state_->mutex);
  uint64_t bytes = 0;
  for (const auto& [at, each] : state_->allocations) bytes += each.bytes;
  return bytes;
}

}  // namespace sk::cuda
