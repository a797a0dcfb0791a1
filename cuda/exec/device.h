// One GPU as a process uses it: its context, the kernels loaded into it, and what it can hold.
#ifndef SK_CUDA_EXEC_DEVICE_H_
#define SK_CUDA_EXEC_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>

#include "cuda/driver/driver.h"
#include "cuda/exec/bundle.h"
#include "cuda/exec/watching.h"
#include "cuda/mem/memory.h"

namespace sk::cuda {

// What a process has of CUDA; outlives its devices.
struct Runtime {
  Driver driver;
  std::string release;  // Of the driver; "" where it is not known.
  KernelBundle kernels{};
};

// The driver of this machine and the kernels of this installation: libsk_cuda.so, beside libsk.so
// or where the dynamic linker looks. SK_ERR_UNSUPPORTED says which of them is absent, or too old.
Result<Runtime> load_runtime();
Result<KernelBundle> load_bundle(const std::string& library);

struct Kernel {
  abi::Function function = nullptr;
  KernelNeeds needs{};
  uint32_t blocks_max = 0;  // On the whole GPU at once; 0: it has no such kernel.
};

// How `blocks` blocks of a kernel are launched, in clusters of `cluster_blocks` where that is
// not 1. Cooperative: all of them become resident, or none. The attributes lie here: not to be
// moved.
class Launch {
 public:
  Launch(const Kernel& kernel, uint32_t blocks, uint32_t cluster_blocks, bool cooperative,
         abi::Stream stream);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  const abi::LaunchConfig* config() const { return &config_; }

 private:
  abi::LaunchAttribute attributes_[2]{};
  abi::LaunchConfig config_;
};

// A device may be used by any thread.
class Device {
 public:
  // `ordinal`: as the driver counts, from 0. Loads all kernels: loading one later would wait for
  // kernels that run, and these may be waiting for us. For the same reason it frees nothing.
  static Result<std::unique_ptr<Device>> open(const Runtime& runtime, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return runtime_.driver; }
  abi::Context context() const { return context_; }
  Owner owner() const { return {&runtime_.driver, context_}; }
  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  uint32_t multiprocessors() const { return multiprocessors_; }
  const Kernel& kernel(KernelId id) const { return kernels_[id]; }

  // As driver_status(); what is sticky is remembered.
  Status check(abi::Result result, const char* call) const;
  // Whether what `event` was recorded behind has ended. This thread's context is the device's.
  Result<bool> has_ended(abi::Event event) const;
  // Not OK once a sticky error was seen.
  Status usable() const;

  // Asks the driver for memory once in many times, and gives none back.
  Result<HostWord> take_word() const { return words_.take(owner()); }

  // Copies on a stream of its own and returns when they are done; never part of a capture. This
  // thread's context is the device's.
  Status upload(abi::DevicePtr to, const void* from, uint64_t bytes) const;
  Status download(void* to, abi::DevicePtr from, uint64_t bytes) const;
  Status clear(abi::DevicePtr at, uint64_t bytes) const;
  // Enqueues the packing of B and returns.
  Status pack(const BareWeights& weights, abi::Stream stream) const;
  // Writes a ClockReading to `out`; as the copies.
  Status tell_time(abi::DevicePtr out) const;
  // The same, enqueued on `stream`.
  Status enqueue_time(abi::DevicePtr out, abi::Stream stream) const;

  // A kernel of the loaded module by its name, for those who launch it themselves.
  Result<abi::Function> load_kernel(const char* name) const;

  // What the kernels tell of their waits; null: they are not watched (cuda/watch).
  const Watching* watching() const { return watching_.get(); }

 private:
  explicit Device(const Runtime& runtime) : runtime_(runtime) {}
  Status start(int ordinal);
  Status load_kernels();
  Status ask_needs();
  Status begin_watch();
  uint32_t resident_pairs(const Kernel& kernel) const;
  Status settle(abi::Result begun, const char* call) const;

  const Runtime& runtime_;
  int ordinal_ = 0;
  abi::Device handle_ = 0;
  bool retained_ = false;
  abi::Context context_ = nullptr;
  abi::Module module_ = nullptr;
  abi::Function tell_time_ = nullptr, pack_ = nullptr;
  abi::Stream copies_ = nullptr;
  std::string name_;
  int capability_[2] = {};
  uint32_t multiprocessors_ = 0, shared_bytes_max_ = 0;
  Kernel kernels_[kKernelCount];
  DeviceMemory told_;  // By sk_tell_needs.
  std::unique_ptr<Watching> watching_;
  mutable HostWords words_;
  mutable std::atomic<abi::Result> sticky_{abi::kSuccess};
};

#define SK_DEVICE_TRY(device, call, ...) \
  SK_RETURN_IF_ERROR((device).check((device).driver().call(__VA_ARGS__), #call))

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_DEVICE_H_
