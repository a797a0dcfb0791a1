// What the fake driver remembers, and the work that it does on streams.
#ifndef SK_TESTS_UNIT_CUDA_FAKE_DRIVER_STATE_H_
#define SK_TESTS_UNIT_CUDA_FAKE_DRIVER_STATE_H_

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>

#include "tests/unit/cuda/fake_driver.h"
#include "tests/unit/cuda/host_kernels.h"

namespace sk::cuda {

namespace abi {
struct ContextOpaque {
  int gpu = 0;
  int retained = 0;
};
struct FunctionOpaque {
  const HostKernel* kernel = nullptr;
  int shared_bytes_max = 48 << 10;  // Without cuFuncSetAttribute().
  bool loaded = false;
};
struct ModuleOpaque {
  FunctionOpaque functions[24];
};
struct EventOpaque {
  std::shared_future<void> done;
  std::shared_ptr<std::chrono::steady_clock::time_point> at;  // Once it is done.
};
struct StreamOpaque {
  Context context = nullptr;
  std::shared_future<void> last;
  CaptureStatus status = kNotCapturing;
  std::shared_ptr<FakeDriver::Graph> graph;
};
}  // namespace abi

inline thread_local std::vector<abi::Context> t_contexts;
inline thread_local abi::CaptureMode t_mode = abi::kCaptureGlobal;

inline void* memory_at(abi::DevicePtr at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

struct Allocation {
  uint64_t bytes;
  int gpu;  // -1: of the host.
  bool managed;
};

struct FakeDriver::State {
  mutable std::mutex mutex;
  std::map<Call, int> counts;
  std::map<Call, std::pair<int, abi::Result>> faults;
  std::atomic<abi::Result> sticky{abi::kSuccess};  // Also set by launches, on their own.
  abi::Result crash = abi::kSuccess;
  bool initialised = false;
  bool hangs = false;               // The next launch.
  std::function<void()> at_launch;  // Of the next one.
  std::function<void(const std::string& kernel)> at_each;
  std::vector<std::unique_ptr<abi::ContextOpaque>> contexts;  // By GPU.
  std::vector<std::unique_ptr<abi::StreamOpaque>> streams;
  abi::StreamOpaque default_stream;
  std::map<uint64_t, Allocation> allocations;
  int loads = 0, lazy_loads = 0;
  std::string last_kernel;

  abi::StreamOpaque& stream(abi::Stream handle) {
    return handle != nullptr ? *handle : default_stream;
  }
  bool capturing() const {
    for (const auto& stream : streams)
      if (stream->status == abi::kCapturing) return true;
    return false;
  }
  // What a capture must not see: it fails, and so does the call.
  bool disturbs_capture() {
    if (!capturing() || t_mode == abi::kCaptureRelaxed) return false;
    for (const auto& stream : streams)
      if (stream->status == abi::kCapturing) stream->status = abi::kCaptureInvalidated;
    return true;
  }
  void enqueue(abi::StreamOpaque& stream, std::function<void()> work) {
    std::shared_future<void> before = stream.last;
    stream.last = std::async(std::launch::async, [before, work = std::move(work)] {
                    if (before.valid()) before.wait();
                    work();
                  }).share();
  }
  uint64_t used(int gpu) const {
    uint64_t bytes = 0;
    for (const auto& [at, each] : allocations) bytes += each.gpu == gpu ? each.bytes : 0;
    return bytes;
  }
  void* allocate(int gpu, size_t bytes, bool managed) {
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xab, bytes);
    allocations[reinterpret_cast<uint64_t>(memory)] = {bytes, gpu, managed};
    return memory;
  }
};

}  // namespace sk::cuda

#endif  // SK_TESTS_UNIT_CUDA_FAKE_DRIVER_STATE_H_
