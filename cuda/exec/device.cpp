#include "cuda/exec/device.h"

#include <algorithm>

#include "cuda/exec/kernels.h"

namespace sk::cuda {
namespace {

constexpr int kOldestCapability = 8;  // Of the targets in cmake/SkCuda.cmake.
constexpr unsigned kWarpThreads = 32;

}  // namespace

Launch::Launch(const Kernel& kernel, uint32_t blocks, uint32_t cluster_blocks, bool cooperative,
               abi::Stream stream)
    : config_{blocks, 1,           1, kernel.needs.block_threads, 1, 1, kernel.needs.shared_bytes,
              stream, attributes_, 0} {
  if (cooperative) {
    abi::LaunchAttribute& added = attributes_[config_.attribute_count++];
    added.id = abi::kLaunchCooperative;
    added.value.cooperative = 1;
  }
  if (cluster_blocks != 1) {
    abi::LaunchAttribute& added = attributes_[config_.attribute_count++];
    added.id = abi::kLaunchCluster;
    added.value.cluster = {cluster_blocks, 1, 1};
  }
}

Result<std::unique_ptr<Device>> Device::open(const Runtime& runtime, int ordinal) {
  if (runtime.kernels.interface != kKernelInterface)
    return error(SK_ERR_UNSUPPORTED, "the kernels are of another version than this library");
  SK_RETURN_IF_ERROR(start_driver(runtime.driver, runtime.kernels.toolkit, runtime.release));
  std::unique_ptr<Device> device(new Device(runtime));
  SK_RETURN_IF_ERROR(device->start(ordinal));
  const Current current(runtime.driver, device->context_);
  SK_RETURN_IF_ERROR(current.status());
  const OutsideCaptures outside(runtime.driver);
  SK_DEVICE_TRY(*device, cuStreamCreate, &device->copies_, abi::kStreamNonBlocking);
  SK_RETURN_IF_ERROR(device->load_kernels());
  if (runtime.kernels.watched) SK_RETURN_IF_ERROR(device->begin_watch());
  return device;
}

Device::~Device() {
  if (!retained_) return;
  {
    const Current current(driver(), context_);
    told_ = {};
    if (watching_ != nullptr) watching_->free(owner());
    words_.free_all(owner());
    if (module_ != nullptr) driver().cuModuleUnload(module_);
    if (copies_ != nullptr) driver().cuStreamDestroy(copies_);
  }
  driver().cuDevicePrimaryCtxRelease(handle_);
}

Status Device::start(int ordinal) {
  int count = 0;
  SK_DEVICE_TRY(*this, cuDeviceGetCount, &count);
  if (ordinal < 0 || ordinal >= count)
    return error(SK_ERR_INVALID_ARGUMENT, "GPU {}: the driver has {} here", ordinal, count);
  ordinal_ = ordinal;
  SK_DEVICE_TRY(*this, cuDeviceGet, &handle_, ordinal);
  char name[128] = "";
  SK_DEVICE_TRY(*this, cuDeviceGetName, name, sizeof name - 1, handle_);
  name_ = name;
  int multiprocessors = 0, shared_bytes = 0, cooperative = 0;
  const std::pair<abi::DeviceAttribute, int*> wanted[] = {
      {abi::kMultiprocessorCount, &multiprocessors},
      {abi::kMaxSharedMemoryPerBlockOptin, &shared_bytes},
      {abi::kCooperativeLaunch, &cooperative},
      {abi::kComputeCapabilityMajor, &capability_[0]},
      {abi::kComputeCapabilityMinor, &capability_[1]},
  };
  for (const auto& [attribute, value] : wanted)
    SK_DEVICE_TRY(*this, cuDeviceGetAttribute, value, attribute, handle_);
  if (capability_[0] < kOldestCapability) {
    return error(SK_ERR_UNSUPPORTED,
                 "{} has compute capability {}.{}; there are kernels for {}.0 on", name_,
                 capability_[0], capability_[1], kOldestCapability);
  }
  if (cooperative == 0)
    return error(SK_ERR_UNSUPPORTED, "{} cannot keep all blocks of a launch resident", name_);
  multiprocessors_ = uint32_t(multiprocessors);
  shared_bytes_max_ = uint32_t(shared_bytes);
  SK_DEVICE_TRY(*this, cuDevicePrimaryCtxRetain, &context_, handle_);
  retained_ = true;
  return {};
}

Status Device::load_kernels() {
  const abi::Result loaded = driver().cuModuleLoadData(&module_, runtime_.kernels.image);
  if (loaded == abi::kNoBinaryForGpu || loaded == abi::kUnsupportedPtxVersion ||
      loaded == abi::kInvalidImage || loaded == abi::kJitCompilationDisabled) {
    int version = 0;
    SK_DEVICE_TRY(*this, cuDriverGetVersion, &version);
    return error(SK_ERR_UNSUPPORTED,
                 "{} (compute capability {}.{}) cannot take the kernels: they are of CUDA {}, the "
                 "driver is for CUDA {}: {}",
                 name_, capability_[0], capability_[1], version_text(runtime_.kernels.toolkit),
                 version_text(uint32_t(version)), check(loaded, "cuModuleLoadData").message());
  }
  SK_RETURN_IF_ERROR(check(loaded, "cuModuleLoadData"));
  SK_RETURN_IF_ERROR(ask_needs());
  SK_ASSIGN_OR_RETURN(tell_time_, load_kernel("sk_tell_time"));
  SK_ASSIGN_OR_RETURN(pack_, load_kernel("sk_pack_weights"));
  for (uint32_t id = 0; id < kKernelCount; ++id) {
    Kernel& kernel = kernels_[id];
    const KernelTraits& traits = traits_of(KernelId(id));
    const auto [threads, shared_bytes] = kernel.needs;
    if (threads == 0) continue;
    SK_ASSIGN_OR_RETURN(kernel.function, load_kernel(traits.name));
    if (shared_bytes > shared_bytes_max_) {
      return error(SK_ERR_UNSUPPORTED, "{} takes {} bytes of shared memory, a block of {} has {}",
                   traits.name, shared_bytes, name_, shared_bytes_max_);
    }
    SK_DEVICE_TRY(*this, cuFuncSetAttribute, kernel.function, abi::kMaxDynamicSharedSizeBytes,
                  int(shared_bytes));
    int resident = 0;
    if (traits.way == Way::kPairs) {
      kernel.blocks_max = resident_pairs(kernel) * kPairBlocks;
      continue;
    }
    SK_DEVICE_TRY(*this, cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident, kernel.function,
                  int(threads), shared_bytes);
    kernel.blocks_max = uint32_t(resident) * multiprocessors_;
  }
  return {};
}

// Drivers load kernels when they are launched first, which may wait for all that runs; one that can
// be told so loads it now.
Result<abi::Function> Device::load_kernel(const char* name) const {
  abi::Function function = nullptr;
  SK_DEVICE_TRY(*this, cuModuleGetFunction, &function, module_, name);
  if (driver().cuFuncLoad != nullptr) SK_DEVICE_TRY(*this, cuFuncLoad, function);
  return function;
}

// A cluster needs neighbours, of which not all may be left. Nothing else depends on clusters, so a
// driver that cannot say has none.
uint32_t Device::resident_pairs(const Kernel& kernel) const {
  const Launch pair(kernel, kPairBlocks, kPairBlocks, /*cooperative=*/false, nullptr);
  int clusters = 0;
  const abi::Result found =
      driver().cuOccupancyMaxActiveClusters(&clusters, kernel.function, pair.config());
  return check(found, "cuOccupancyMaxActiveClusters").ok() ? uint32_t(clusters) : 0;
}

// Asks the code that this GPU runs, for other targets' needs may differ. It also shows that the
// code runs at all.
Status Device::ask_needs() {
  SK_ASSIGN_OR_RETURN(const abi::Function tell, load_kernel("sk_tell_needs"));
  KernelNeeds needs[kKernelCount];
  SK_ASSIGN_OR_RETURN(told_, DeviceMemory::allocate(owner(), sizeof needs, "opening it"));
  SK_RETURN_IF_ERROR(clear(told_.address(), sizeof needs));
  NeedsArgs args{pointer<KernelNeeds>(told_.address())};
  void* parameters[] = {&args};
  const abi::LaunchConfig config{1, 1, 1, kWarpThreads, 1, 1, 0, copies_, nullptr, 0};
  SK_DEVICE_TRY(*this, cuLaunchKernelEx, &config, tell, parameters, nullptr);
  SK_RETURN_IF_ERROR(download(needs, told_.address(), sizeof needs));
  for (uint32_t id = 0; id < kKernelCount; ++id) kernels_[id].needs = needs[id];
  return {};
}

Status Device::check(abi::Result result, const char* call) const {
  if (is_sticky(result)) [[unlikely]]
    sticky_.store(result, std::memory_order_relaxed);
  Status status = driver_status(driver(), result, call);
  if (status.ok() || watching_ == nullptr) return status;
  const std::string who = who_waits(watching_->blocks(), name_);
  return who.empty() ? std::move(status) : error(status.code(), "{}: {}", status.message(), who);
}

Result<bool> Device::has_ended(abi::Event event) const {
  const OutsideCaptures outside(driver());
  const abi::Result found = driver().cuEventQuery(event);
  if (found == abi::kNotReady) return false;
  SK_RETURN_IF_ERROR(check(found, "cuEventQuery"));
  return true;
}

Status Device::usable() const {
  return driver_status(driver(), sticky_.load(std::memory_order_relaxed), "an earlier call");
}

// Waits for what was begun on the own stream.
Status Device::settle(abi::Result begun, const char* call) const {
  SK_RETURN_IF_ERROR(check(begun, call));
  return check(driver().cuStreamSynchronize(copies_), "cuStreamSynchronize");
}

Status Device::upload(abi::DevicePtr to, const void* from, uint64_t bytes) const {
  const OutsideCaptures outside(driver());
  return settle(driver().cuMemcpyHtoDAsync(to, from, bytes, copies_), "cuMemcpyHtoDAsync");
}

Status Device::download(void* to, abi::DevicePtr from, uint64_t bytes) const {
  const OutsideCaptures outside(driver());
  return settle(driver().cuMemcpyDtoHAsync(to, from, bytes, copies_), "cuMemcpyDtoHAsync");
}

Status Device::pack(const BareWeights& weights, abi::Stream stream) const {
  BareWeights args = weights;
  void* parameters[] = {&args};
  const unsigned blocks = unsigned(std::min<uint64_t>(multiprocessors_, weights.n));
  const abi::LaunchConfig config{blocks, 1, 1, kPackThreads, 1, 1, 0, stream, nullptr, 0};
  SK_DEVICE_TRY(*this, cuLaunchKernelEx, &config, pack_, parameters, nullptr);
  return {};
}

Status Device::tell_time(abi::DevicePtr out) const {
  const OutsideCaptures outside(driver());
  SK_RETURN_IF_ERROR(enqueue_time(out, copies_));
  return check(driver().cuStreamSynchronize(copies_), "cuStreamSynchronize");
}

Status Device::enqueue_time(abi::DevicePtr out, abi::Stream stream) const {
  ClockArgs args{pointer<ClockReading>(out)};
  void* parameters[] = {&args};
  const abi::LaunchConfig config{1, 1, 1, kWarpThreads, 1, 1, 0, stream, nullptr, 0};
  SK_DEVICE_TRY(*this, cuLaunchKernelEx, &config, tell_time_, parameters, nullptr);
  return {};
}

Status Device::begin_watch() {
  SK_ASSIGN_OR_RETURN(const abi::Function begin, load_kernel("sk_begin_watch"));
  uint32_t blocks_max = 0;
  for (const Kernel& kernel : kernels_) blocks_max = std::max(blocks_max, kernel.blocks_max);
  SK_ASSIGN_OR_RETURN(watching_, Watching::begin(owner(), blocks_max));
  WatchArgs args{{watching_->blocks().data(), Watching::kDeadlineCycles, 0}};
  void* parameters[] = {&args};
  const abi::LaunchConfig config{1, 1, 1, kWarpThreads, 1, 1, 0, copies_, nullptr, 0};
  return settle(driver().cuLaunchKernelEx(&config, begin, parameters, nullptr), "cuLaunchKernelEx");
}

Status Device::clear(abi::DevicePtr at, uint64_t bytes) const {
  const OutsideCaptures outside(driver());
  return settle(driver().cuMemsetD8Async(at, 0, bytes, copies_), "cuMemsetD8Async");
}

}  // namespace sk::cuda
