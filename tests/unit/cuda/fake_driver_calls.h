// The functions of the driver as the fake one has them: plain ones, which know no object.
#ifndef SK_TESTS_UNIT_CUDA_FAKE_DRIVER_CALLS_H_
#define SK_TESTS_UNIT_CUDA_FAKE_DRIVER_CALLS_H_

#include "tests/devhost/machine.h"
#include "tests/devhost/world.h"
#include "tests/unit/cuda/fake_driver_state.h"

namespace sk::cuda {

inline constexpr abi::Result kInvalidValue = 1, kFound = abi::kSuccess;
inline FakeDriver* g_fake = nullptr;

// FakeDriver's lock is held.
struct FakeCalls {
  using Result = abi::Result;

  static FakeDriver::State& state() { return *g_fake->state_; }
  static int gpu() { return t_contexts.empty() ? -1 : t_contexts.back()->gpu; }

  static Result cuInit(unsigned) {
    if (g_fake->gpus.empty()) return abi::kNoDevice;
    state().initialised = true;
    return kFound;
  }
  static Result cuDriverGetVersion(int* version) { return *version = g_fake->version, kFound; }
  static Result cuGetErrorName(Result result, const char** name) {
    static const std::map<Result, const char*> names = {
        {abi::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
        {abi::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {abi::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
        {abi::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {abi::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {abi::kUnknown, "CUDA_ERROR_UNKNOWN"},
    };
    const auto found = names.find(result);
    return found == names.end() ? kInvalidValue : (*name = found->second, kFound);
  }
  static Result cuGetErrorString(Result, const char** text) { return *text = "a fault", kFound; }
  static Result cuDeviceGetCount(int* count) { return *count = int(g_fake->gpus.size()), kFound; }
  static Result cuDeviceGet(abi::Device* device, int ordinal) { return *device = ordinal, kFound; }
  static Result cuDeviceGetName(char* name, int bytes, abi::Device device) {
    std::strncpy(name, g_fake->gpus[size_t(device)].name.c_str(), size_t(bytes));
    return kFound;
  }
  static Result cuDeviceGetAttribute(int* value, abi::DeviceAttribute wanted, abi::Device device) {
    const FakeDriver::Gpu& gpu = g_fake->gpus[size_t(device)];
    switch (wanted) {
      case abi::kMultiprocessorCount:
        return *value = gpu.multiprocessors, kFound;
      case abi::kComputeCapabilityMajor:
        return *value = gpu.capability[0], kFound;
      case abi::kComputeCapabilityMinor:
        return *value = gpu.capability[1], kFound;
      case abi::kCooperativeLaunch:
        return *value = gpu.cooperative ? 1 : 0, kFound;
      case abi::kMaxSharedMemoryPerBlockOptin:
        return *value = gpu.shared_bytes_max, kFound;
    }
    return kInvalidValue;
  }
  static Result cuDevicePrimaryCtxRetain(abi::Context* context, abi::Device device) {
    while (state().contexts.size() <= size_t(device))
      state().contexts.push_back(std::make_unique<abi::ContextOpaque>(
          abi::ContextOpaque{int(state().contexts.size()), 0}));
    *context = state().contexts[size_t(device)].get();
    ++(*context)->retained;
    return kFound;
  }
  static Result cuDevicePrimaryCtxRelease(abi::Device device) {
    return --state().contexts[size_t(device)]->retained, kFound;
  }
  static Result cuCtxPushCurrent(abi::Context context) {
    return t_contexts.push_back(context), kFound;
  }
  static Result cuCtxPopCurrent(abi::Context* context) {
    *context = t_contexts.back();
    return t_contexts.pop_back(), kFound;
  }
  static Result cuModuleLoadData(abi::Module* module, const void*) {
    if (gpu() < 0) return abi::kInvalidContext;
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    ++state().loads;
    return *module = new abi::ModuleOpaque, kFound;
  }
  static Result cuModuleUnload(abi::Module module) {
    --state().loads;
    return delete module, kFound;
  }
  static Result cuModuleGetFunction(abi::Function* function, abi::Module module, const char* name) {
    for (abi::FunctionOpaque& each : module->functions) {
      if (each.kernel != nullptr) continue;
      each.kernel = find_host_kernel(name);
      return each.kernel == nullptr ? 500 : (*function = &each, kFound);
    }
    return 500;
  }
  static Result cuFuncSetAttribute(abi::Function function, abi::FunctionAttribute, int value) {
    if (value > g_fake->gpus[size_t(gpu())].shared_bytes_max) return kInvalidValue;
    return function->shared_bytes_max = value, kFound;
  }
  static Result cuFuncLoad(abi::Function function) {
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    return function->loaded = true, kFound;
  }
  static Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, abi::Function, int,
                                                            size_t) {
    return *blocks = g_fake->gpus[size_t(gpu())].blocks_per_multiprocessor, kFound;
  }
  static Result cuOccupancyMaxActiveClusters(int* clusters, abi::Function,
                                             const abi::LaunchConfig* config) {
    const FakeDriver::Gpu& on = g_fake->gpus[size_t(gpu())];
    const int blocks = on.multiprocessors * on.blocks_per_multiprocessor;
    return *clusters = blocks / int(cluster_blocks(*config)), kFound;
  }
  // 1: none are asked for.
  static uint32_t cluster_blocks(const abi::LaunchConfig& config) {
    for (unsigned i = 0; i < config.attribute_count; ++i) {
      const abi::LaunchAttribute& each = config.attributes[i];
      if (each.id == abi::kLaunchCluster) return each.value.cluster.x;
    }
    return 1;
  }
  static bool is_cooperative(const abi::LaunchConfig& config) {
    for (unsigned i = 0; i < config.attribute_count; ++i) {
      const abi::LaunchAttribute& each = config.attributes[i];
      if (each.id == abi::kLaunchCooperative) return each.value.cooperative == 1;
    }
    return false;
  }
  static Result cuMemGetInfo(size_t* free, size_t* total) {
    *total = g_fake->gpus[size_t(gpu())].memory_bytes;
    return *free = *total - state().used(gpu()), kFound;
  }
  static Result cuMemAlloc(abi::DevicePtr* at, size_t bytes) {
    if (gpu() < 0) return abi::kInvalidContext;
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    if (bytes > g_fake->gpus[size_t(gpu())].memory_bytes - state().used(gpu()))
      return abi::kOutOfMemory;
    return *at = reinterpret_cast<uint64_t>(state().allocate(gpu(), bytes, false)), kFound;
  }
  static Result cuMemFree(abi::DevicePtr at) {
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    settle_all();
    if (state().allocations.erase(at) == 0) return kInvalidValue;
    return std::free(memory_at(at)), kFound;
  }
  static Result cuMemHostAlloc(void** at, size_t bytes, unsigned) {
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    return *at = state().allocate(-1, bytes, false), kFound;
  }
  static Result cuMemFreeHost(void* at) { return cuMemFree(reinterpret_cast<uint64_t>(at)); }
  static Result cuMemsetD8Async(abi::DevicePtr at, unsigned char value, size_t bytes,
                                abi::Stream handle) {
    return begin(handle, [=] { std::memset(memory_at(at), value, bytes); });
  }
  // From and to memory that is not pinned: what is read has been read when the call returns, and
  // what is written is there.
  static Result cuMemcpyHtoDAsync(abi::DevicePtr to, const void* from, size_t bytes,
                                  abi::Stream handle) {
    const auto* first = static_cast<const std::byte*>(from);
    return begin(handle, [to, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(memory_at(to), staged.data(), staged.size());
    });
  }
  static Result cuMemcpyDtoHAsync(void* to, abi::DevicePtr from, size_t bytes, abi::Stream handle) {
    const Result begun = begin(handle, [=] { std::memcpy(to, memory_at(from), bytes); });
    settle(state().stream(handle));
    return begun;
  }
  // Waits for the stream; others may call meanwhile.
  static void settle(abi::StreamOpaque& stream) {
    const std::shared_future<void> last = stream.last;
    state().mutex.unlock();
    if (last.valid()) last.wait();
    state().mutex.lock();
  }
  static void settle_all() {
    std::vector<std::shared_future<void>> last{state().default_stream.last};
    for (const auto& stream : state().streams) last.push_back(stream->last);
    state().mutex.unlock();
    for (const std::shared_future<void>& each : last)
      if (each.valid()) each.wait();
    state().mutex.lock();
  }
  static Result begin(abi::Stream handle, std::function<void()> work) {
    abi::StreamOpaque& stream = state().stream(handle);
    if (stream.status == abi::kCaptureInvalidated) return abi::kStreamCaptureInvalidated;
    if (stream.status == abi::kCapturing)
      stream.graph->nodes.push_back(std::move(work));
    else
      state().enqueue(stream, std::move(work));
    return kFound;
  }
  static Result cuPointerGetAttributes(unsigned count, abi::PointerAttribute* wanted, void** values,
                                       abi::DevicePtr at) {
    const auto& all = state().allocations;
    auto found = all.upper_bound(at);
    if (found != all.begin()) --found;
    const bool known =
        found != all.end() && at >= found->first && at < found->first + found->second.bytes;
    for (unsigned i = 0; i < count; ++i) {
      uint32_t value = 0;  // What is not known is zero; the ordinal: -2.
      if (wanted[i] == abi::kMemoryType && known) value = found->second.gpu < 0 ? 1 : 2;
      if (wanted[i] == abi::kIsManaged) value = known && found->second.managed ? 1 : 0;
      if (wanted[i] == abi::kDeviceOrdinal)
        value = known ? uint32_t(found->second.gpu) : uint32_t(-2);
      std::memcpy(values[i], &value, sizeof value);
    }
    return kFound;
  }
  // What cuda.h asks of a map with this swizzle.
  static Result cuTensorMapEncodeTiled(abi::TensorMap* map, abi::TensorType, uint32_t rank,
                                       void* address, const uint64_t* sizes,
                                       const uint64_t* pitches, const uint32_t* box,
                                       const uint32_t* steps, abi::TensorInterleave interleave,
                                       abi::TensorSwizzle swizzle, abi::TensorPromotion,
                                       abi::TensorFill) {
    const auto at = reinterpret_cast<uint64_t>(address);
    const bool sound = rank == 2 && at % 16 == 0 && pitches[0] % 16 == 0 && sizes[0] > 0 &&
                       sizes[1] > 0 && box[0] * 2 == 128 && box[1] <= 256 && steps[0] == 1 &&
                       steps[1] == 1 && interleave == abi::kInterleaveNone &&
                       swizzle == abi::kSwizzle128;
    if (!sound) return kInvalidValue;
    const TensorMap made = devhost::map_of({.address = at,
                                            .rows = sizes[1],
                                            .columns = sizes[0],
                                            .pitch = pitches[0],
                                            .box_rows = box[1]});
    std::memcpy(map, &made, sizeof *map);
    return kFound;
  }
  static Result cuLaunchKernelEx(const abi::LaunchConfig* config, abi::Function function,
                                 void** parameters, void**) {
    if (gpu() < 0) return abi::kInvalidContext;
    const FakeDriver::Gpu& on = g_fake->gpus[size_t(gpu())];
    if (int(config->shared_bytes) > function->shared_bytes_max) return kInvalidValue;
    if (is_cooperative(*config) != function->kernel->cooperative) return kInvalidValue;
    if (cluster_blocks(*config) != function->kernel->cluster_blocks) return kInvalidValue;
    if (config->grid_x % cluster_blocks(*config) != 0) return kInvalidValue;
    if (int(config->grid_x) > on.multiprocessors * on.blocks_per_multiprocessor)
      return abi::kCooperativeLaunchTooLarge;
    if (const auto act = std::exchange(state().at_launch, nullptr)) act();
    if (std::exchange(state().hangs, false)) {
      return begin(config->stream, [] { std::promise<void>().get_future().wait(); });
    }
    if (state().crash != abi::kSuccess) {
      state().sticky = state().crash;  // Seen by the next call.
      return kFound;
    }
    if (!std::exchange(function->loaded, true)) ++state().lazy_loads;
    state().last_kernel = function->kernel->name;
    if (state().at_each) state().at_each(function->kernel->name);
    const auto* first = static_cast<const std::byte*>(parameters[0]);
    std::vector<std::byte> args(first, first + function->kernel->args_bytes);
    return begin(config->stream, [args, kernel = function->kernel, blocks = config->grid_x,
                                  threads = config->block_x, shared = config->shared_bytes] {
      const bool ended = devhost::launch(
          blocks, threads, shared, [&] { kernel->run(args.data()); }, kernel->cluster_blocks);
      if (!ended) state().sticky = abi::kLaunchFailed;
    });
  }
  static Result cuStreamCreate(abi::Stream* stream, unsigned) {
    state().streams.push_back(std::make_unique<abi::StreamOpaque>());
    *stream = state().streams.back().get();
    return (*stream)->context = t_contexts.back(), kFound;
  }
  static Result cuStreamDestroy(abi::Stream handle) {
    std::erase_if(state().streams, [&](const auto& each) { return each.get() == handle; });
    return kFound;
  }
  static Result cuStreamSynchronize(abi::Stream handle) {
    abi::StreamOpaque& stream = state().stream(handle);
    if (stream.status != abi::kNotCapturing) {
      stream.status = abi::kCaptureInvalidated;
      return abi::kStreamCaptureUnsupported;
    }
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    settle(stream);
    return state().sticky;
  }
  static Result cuStreamQuery(abi::Stream handle) {
    abi::StreamOpaque& stream = state().stream(handle);
    if (stream.status != abi::kNotCapturing) {
      stream.status = abi::kCaptureInvalidated;
      return abi::kStreamCaptureUnsupported;
    }
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    const bool done = !stream.last.valid() ||
                      stream.last.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    return done ? kFound : abi::kNotReady;
  }
  static Result cuStreamGetCtx(abi::Stream handle, abi::Context* context) {
    return *context = handle != nullptr ? handle->context : t_contexts.back(), kFound;
  }
  static Result cuStreamIsCapturing(abi::Stream handle, abi::CaptureStatus* status) {
    if (handle == nullptr && state().capturing()) return abi::kStreamCaptureImplicit;
    return *status = state().stream(handle).status, kFound;
  }
  static Result cuStreamWaitEvent(abi::Stream handle, abi::Event event, unsigned) {
    const std::shared_future<void> done = event->done;
    return begin(handle, [done] {
      if (done.valid()) done.wait();
    });
  }
  static Result cuThreadExchangeStreamCaptureMode(abi::CaptureMode* mode) {
    return std::swap(*mode, t_mode), kFound;
  }
  static Result cuEventCreate(abi::Event* event, unsigned) {
    return *event = new abi::EventOpaque, kFound;
  }
  static Result cuEventRecord(abi::Event event, abi::Stream handle) {
    if (state().stream(handle).status != abi::kNotCapturing) return abi::kStreamCaptureUnsupported;
    abi::StreamOpaque& stream = state().stream(handle);
    event->at = std::make_shared<std::chrono::steady_clock::time_point>();
    state().enqueue(stream, [at = event->at] { *at = std::chrono::steady_clock::now(); });
    return event->done = stream.last, kFound;
  }
  static Result cuEventQuery(abi::Event event) {
    if (state().disturbs_capture()) return abi::kStreamCaptureUnsupported;
    const bool done = !event->done.valid() ||
                      event->done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    return done ? kFound : abi::kNotReady;
  }
  static Result cuEventDestroy(abi::Event event) { return delete event, kFound; }

  // Around every one of them.
  template <Call call, auto function, typename... Args>
  static Result entry(Args... args) {
    const std::lock_guard lock(state().mutex);
    ++state().counts[call];
    const auto fault = state().faults.find(call);
    if (fault != state().faults.end() && fault->second.first-- == 0) {
      const Result result = fault->second.second;
      state().faults.erase(fault);
      return result;
    }
    const bool tells_why = call == Call::cuGetErrorName || call == Call::cuGetErrorString;
    if (state().sticky != abi::kSuccess && !tells_why) {
      // What a failed GPU holds goes with the process; here the tests go on.
      constexpr bool ends = call == Call::cuEventDestroy || call == Call::cuModuleUnload;
      if constexpr (ends) function(args...);
      return state().sticky;
    }
    return function(args...);
  }
  template <Call call, auto function, typename... Args>
  static void fill(Result (*&slot)(Args...)) {
    slot = &entry<call, function, Args...>;
  }
};

}  // namespace sk::cuda

#endif  // SK_TESTS_UNIT_CUDA_FAKE_DRIVER_CALLS_H_
