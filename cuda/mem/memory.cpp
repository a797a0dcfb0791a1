#include "cuda/mem/memory.h"

#include <atomic>
#include <cstddef>

namespace sk::cuda {
namespace {

constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kWordBytes = 64;  // A line of the host's: who polls one disturbs no other.

}  // namespace

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

HostWord::~HostWord() {
  if (word_ == nullptr) return;
  const std::lock_guard lock(from_.mutex_);
  from_.idle_.push_back(word_);
}

Result<HostWord> HostWords::take(const Owner& owner) {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    const Driver& driver = *owner.driver;
    const Current current(driver, owner.context);
    SK_RETURN_IF_ERROR(current.status());
    const OutsideCaptures outside(driver);
    void* page = nullptr;
    SK_CUDA_TRY(driver, cuMemHostAlloc, &page, kPageBytes,
                abi::kMemHostPortable | abi::kMemHostDeviceMap);
    pages_.push_back(page);
    for (uint32_t at = 0; at < kPageBytes; at += kWordBytes)
      idle_.push_back(reinterpret_cast<uint32_t*>(static_cast<std::byte*>(page) + at));
  }
  HostWord word(*this, idle_.back());
  idle_.pop_back();
  word.store(0);
  return word;
}

void HostWords::free_all(const Owner& owner) {
  const Current current(*owner.driver, owner.context);
  const OutsideCaptures outside(*owner.driver);
  for (void* page : pages_) owner.driver->cuMemFreeHost(page);
  pages_.clear();
  idle_.clear();
}

uint32_t HostWord::load() const {
  return std::atomic_ref<uint32_t>(*word_).load(std::memory_order_acquire);
}

void HostWord::store(uint32_t value) {
  std::atomic_ref<uint32_t>(*word_).store(value, std::memory_order_release);
}

}  // namespace sk::cuda
