// Memory of a GPU, and memory of the host that a GPU reaches; freed by their owners' end.
#ifndef SK_CUDA_MEM_MEMORY_H_
#define SK_CUDA_MEM_MEMORY_H_

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver/driver.h"

namespace sk::cuda {

// Where memory belongs; outlives it.
struct Owner {
  const Driver* driver = nullptr;
  abi::Context context = nullptr;
};

// An address of a GPU, as kernels' arguments have it; the host never follows it.
template <typename T>
T* pointer(abi::DevicePtr address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

class DeviceMemory {
 public:
  // SK_ERR_NO_MEMORY says how much is needed, and how much is free.
  static Result<DeviceMemory> allocate(const Owner& owner, uint64_t bytes, const char* what);
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : owner_(other.owner_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  abi::DevicePtr address() const { return address_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Owner owner_;
  abi::DevicePtr address_ = 0;
  uint64_t bytes_ = 0;
};

class HostWords;

// A word of the host's memory that kernels load and store.
class HostWord {
 public:
  ~HostWord();
  HostWord(HostWord&& other) noexcept
      : from_(other.from_), word_(std::exchange(other.word_, nullptr)) {}
  HostWord& operator=(HostWord&&) = delete;

  // The same address on the host and on every GPU.
  uint32_t* address() const { return word_; }
  uint32_t load() const;
  void store(uint32_t value);

 private:
  friend class HostWords;
  HostWord(HostWords& from, uint32_t* word) : from_(from), word_(word) {}
  HostWords& from_;
  uint32_t* word_;
};

// Where such words come from, by pages. One that is given back is lent again and never freed before
// the end: freeing pinned memory waits for all that runs on the GPU, of whomever, without a bound.
// Whatever used a word has ended when it is given back. Any thread.
class HostWords {
 public:
  HostWords() = default;
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;

  // A word that is zero. Outlives it.
  Result<HostWord> take(const Owner& owner);
  // Nothing is lent any more.
  void free_all(const Owner& owner);

 private:
  friend class HostWord;
  std::mutex mutex_;
  std::vector<void*> pages_;
  std::vector<uint32_t*> idle_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_MEM_MEMORY_H_
