#include "cuda/mem/memory.h"

#include <atomic>

namespace sk::cuda {

Result<DeviceMemory> DeviceMemory::allocate(const Owner& owner, uint64_t bytes, const char* what) {
  const Driver& driver = *owner.driver;
  const Current current(driver, owner.context);
  SK_RETURN_IF_ERROR(current.status());
  const OutsideCaptures outside(driver);
  DeviceMemory memory;
  memory.owner_ = owner;
  memory.bytes_ = bytes;
  const abi::Result result = driver.cuMemAlloc(&memory.address_, bytes);
  if (result == abi::kOutOfMemory) {
    size_t free = 0, total = 0;
    SK_CUDA_TRY(driver, cuMemGetInfo, &free, &total);
    return error(SK_ERR_NO_MEMORY, "{} needs {} bytes on the GPU, where {} of {} are free", what,
                 bytes, free, total);
  }
  SK_RETURN_IF_ERROR(driver_status(driver, result, "cuMemAlloc"));
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const Current current(*owner_.driver, owner_.context);
  const OutsideCaptures outside(*owner_.driver);
  owner_.driver->cuMemFree(address_);  // Waits for what runs on the GPU.
}

Result<HostWord> HostWord::allocate(const Owner& owner) {
  const Driver& driver = *owner.driver;
  const Current current(driver, owner.context);
  SK_RETURN_IF_ERROR(current.status());
  const OutsideCaptures outside(driver);
  void* word = nullptr;
  SK_CUDA_TRY(driver, cuMemHostAlloc, &word, sizeof(uint64_t),
              abi::kMemHostPortable | abi::kMemHostDeviceMap);
  HostWord made(owner, static_cast<uint32_t*>(word));
  made.store(0);
  return made;
}

HostWord::~HostWord() {
  if (word_ == nullptr) return;
  const Current current(*owner_.driver, owner_.context);
  const OutsideCaptures outside(*owner_.driver);
  owner_.driver->cuMemFreeHost(word_);
}

uint32_t HostWord::load() const {
  return std::atomic_ref<uint32_t>(*word_).load(std::memory_order_acquire);
}

void HostWord::store(uint32_t value) {
  std::atomic_ref<uint32_t>(*word_).store(value, std::memory_order_release);
}

}  // namespace sk::cuda
