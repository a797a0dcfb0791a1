#include "tests/gpu/fake_calls.h"

namespace sk::cuda {

namespace abi {
struct GraphOpaque {
  std::shared_ptr<FakeDriver::Graph> graph;
};
struct GraphExecOpaque {
  std::shared_ptr<FakeDriver::Graph> graph;
};
}  // namespace abi

namespace {

FakeDriver* g_fake = nullptr;

abi::Result begin_capture(abi::Stream stream, abi::CaptureMode) {
  return g_fake->begin_capture(stream), abi::kSuccess;
}
abi::Result end_capture(abi::Stream stream, abi::Graph* graph) {
  std::shared_ptr<FakeDriver::Graph> nodes = g_fake->end_capture(stream);
  if (nodes == nullptr) return abi::kStreamCaptureInvalidated;
  return *graph = new abi::GraphOpaque{std::move(nodes)}, abi::kSuccess;
}
abi::Result instantiate(abi::GraphExec* exec, abi::Graph graph, unsigned long long) {
  return *exec = new abi::GraphExecOpaque{graph->graph}, abi::kSuccess;
}
abi::Result launch(abi::GraphExec exec, abi::Stream stream) {
  return g_fake->replay(*exec->graph, stream), abi::kSuccess;
}
abi::Result destroy_exec(abi::GraphExec exec) { return delete exec, abi::kSuccess; }
abi::Result destroy(abi::Graph graph) { return delete graph, abi::kSuccess; }
abi::Result elapsed(float* ms, abi::Event from, abi::Event to) {
  return *ms = float(FakeDriver::elapsed_ms(from, to)), abi::kSuccess;
}
abi::Result copy(abi::DevicePtr to, abi::DevicePtr from, size_t bytes, abi::Stream stream) {
  return g_fake->copy(to, from, bytes, stream), abi::kSuccess;
}

}  // namespace

Calls fake_calls(FakeDriver& fake) {
  g_fake = &fake;
  return {begin_capture, end_capture, instantiate, launch, destroy_exec, destroy, elapsed, copy};
}

}  // namespace sk::cuda
