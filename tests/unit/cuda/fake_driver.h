// A CUDA driver for tests: it remembers calls, fails when told to, and runs kernels on the CPU.
//
// What a driver refuses it refuses as well: allocations beside a capture, launches that are too
// large, anything after a sticky error. Work on streams is done by other threads, in order on each.
#ifndef SK_TESTS_UNIT_CUDA_FAKE_DRIVER_H_
#define SK_TESTS_UNIT_CUDA_FAKE_DRIVER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/exec/device.h"

namespace sk::cuda {

enum class Call {
#define SK_ENUMERATOR(name, symbol, ...) name,
  SK_CUDA_DRIVER_FUNCTIONS(SK_ENUMERATOR) SK_CUDA_LATER_FUNCTIONS(SK_ENUMERATOR)
#undef SK_ENUMERATOR
};

// One at a time in a process: the driver's functions are plain ones and know no object.
class FakeDriver {
 public:
  struct Gpu {
    std::string name = "Fake H100";
    int capability[2] = {9, 0};
    int multiprocessors = 8;
    int shared_bytes_max = 227 << 10;
    int blocks_per_multiprocessor = 1;
    bool cooperative = true;
    uint64_t memory_bytes = 64 << 20;
  };
  struct Graph {
    std::vector<std::function<void()>> nodes;
  };

  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // This driver, with kernels of CUDA 13.0.
  const Runtime& runtime() const { return runtime_; }
  Runtime& runtime() { return runtime_; }

  // What the machine is; before it is used.
  int version = 13000;
  std::vector<Gpu> gpus{1};

  // The next call of `call` after `skip` more returns `result` and does nothing.
  void fail(Call call, abi::Result result, int skip = 0);
  // The next launch ends so, and every call after it.
  void crash_next_launch(abi::Result result);
  // The next launch never ends.
  void hang_next_launch();
  // Called by the next launch, once.
  void at_next_launch(std::function<void()> act);
  // Called by every launch with its kernel's name, under the driver's lock.
  void at_each_launch(std::function<void(const std::string& kernel)> act);
  int count(Call call) const;
  std::string last_kernel() const;
  // Kernels that a launch had to load.
  int lazy_loads() const;

  // What callers of the library do by themselves. Memory of `gpu`, or memory that is managed.
  void* allocate(int gpu, size_t bytes, bool managed = false);
  void free(void* memory);
  abi::Stream make_stream(int gpu = 0);
  void begin_capture(abi::Stream stream);
  std::shared_ptr<Graph> end_capture(abi::Stream stream);  // Null: the capture has failed.
  void replay(const Graph& graph, abi::Stream stream);
  void invalidate_capture(abi::Stream stream);
  void synchronize(abi::Stream stream);
  void copy(abi::DevicePtr to, abi::DevicePtr from, size_t bytes, abi::Stream stream);
  static double elapsed_ms(abi::Event from, abi::Event to);  // Waits for both.
  // Bytes of GPUs' and pinned memory in use.
  uint64_t allocated_bytes() const;

 private:
  friend struct FakeCalls;
  struct State;
  std::unique_ptr<State> state_;
  Runtime runtime_;
};

}  // namespace sk::cuda

#endif  // SK_TESTS_UNIT_CUDA_FAKE_DRIVER_H_
