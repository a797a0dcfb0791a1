// The symmetric heap of one rank: which pages of its segment are given out.
#ifndef SK_LIB_COMM_HEAP_H_
#define SK_LIB_COMM_HEAP_H_

#include <cstdint>
#include <map>
#include <optional>

#include "lib/base/status.h"
#include "transport/session.h"

namespace sk {

// Where a caller's memory is, as peers can reach it.
struct Reach {
  uint64_t segment_offset = 0;
};

class Heap {
 public:
  explicit Heap(Endpoint& endpoint);

  // First fit, whole pages; zero-filled.
  Result<void*> allocate(uint64_t bytes);
  // The bytes asked for, or an error when `memory` is not the start of an allocation.
  Result<uint64_t> size_of(const void* memory) const;
  Status free(void* memory);

  // Memory of the caller's that peers reach through the same address space.
  Status add_registered(void* memory, uint64_t bytes);
  Result<uint64_t> registered_size(const void* memory) const;
  void remove_registered(void* memory);

  // Set when all of [data, data + bytes) lies in one allocation or registration.
  std::optional<Reach> find(const void* data, uint64_t bytes) const;
  uint64_t bytes_held() const { return held_; }
  bool has_registered() const { return !registered_.empty(); }

 private:
  struct Block {
    uint64_t asked;  // Bytes.
    uint64_t taken;  // In whole pages.
  };
  const std::byte* base() const { return endpoint_.segment(); }

  Endpoint& endpoint_;
  std::map<uint64_t, Block> blocks_;          // By offset in the heap.
  std::map<uintptr_t, uint64_t> registered_;  // Bytes by address.
  uint64_t held_ = 0;
};

}  // namespace sk

#endif  // SK_LIB_COMM_HEAP_H_
