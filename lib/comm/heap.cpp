#include "lib/comm/heap.h"

#include <iterator>

#include "lib/plan/plan.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

Heap::Heap(Endpoint& endpoint) : endpoint_(endpoint) {}

Result<void*> Heap::allocate(uint64_t bytes) {
  const uint64_t room = endpoint_.layout().heap_bytes_max;
  if (bytes > room) {
    return error(SK_ERR_OUT_OF_RANGE, "{} bytes asked for, symmetric_bytes_max is {}", bytes, room);
  }
  const uint64_t taken = align_up(bytes, kPage);
  uint64_t offset = 0;
  for (const auto& [begin, block] : blocks_) {
    if (begin - offset >= taken) break;
    offset = begin + block.taken;
  }
  if (offset + taken > room) {
    return error(SK_ERR_OUT_OF_RANGE,
                 "{} bytes asked for, {} of symmetric_bytes_max {} are held already", bytes, held_,
                 room);
  }
  const auto block = blocks_.emplace(offset, Block{bytes, taken}).first;
  Status committed =
      caught([&] { return endpoint_.commit(endpoint_.layout().heap_offset() + offset, taken); });
  if (!committed.ok()) {
    blocks_.erase(block);
    return committed;
  }
  held_ += bytes;
  return static_cast<void*>(endpoint_.segment() + endpoint_.layout().heap_offset() + offset);
}

Result<uint64_t> Heap::size_of(const void* memory) const {
  const uint64_t offset =
      uint64_t(static_cast<const std::byte*>(memory) - base()) - endpoint_.layout().heap_offset();
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) {
    return error(SK_ERR_INVALID_ARGUMENT, "memory {} was not returned by sk_alloc() here, or freed",
                 memory);
  }
  return block->second.asked;
}

Status Heap::free(void* memory) {
  const uint64_t start = endpoint_.layout().heap_offset();
  const auto block = blocks_.find(uint64_t(static_cast<std::byte*>(memory) - base()) - start);
  const Block gone = block->second;
  const uint64_t offset = start + block->first;
  held_ -= gone.asked;
  blocks_.erase(block);
  return endpoint_.release(offset, gone.taken);
}

Status Heap::add_registered(void* memory, uint64_t bytes) {
  const uintptr_t first = uintptr_t(memory);
  if (bytes > UINTPTR_MAX - first) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} bytes at {} reach beyond the address space", bytes,
                 memory);
  }
  // One address has one owner: find() looks at the nearest that begins before it.
  if (first < uintptr_t(base()) + endpoint_.layout().bytes() && first + bytes > uintptr_t(base())) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} bytes at {} lie in what sk_alloc() gives, which is symmetric already", bytes,
                 memory);
  }
  const auto behind = registered_.lower_bound(first + bytes);
  if (behind != registered_.begin()) {
    const auto& [other, size] = *std::prev(behind);
    if (other + size > first) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "{} bytes at {} overlap the {} bytes at {:#x} that are registered already; "
                   "sk_deregister() those first",
                   bytes, memory, size, other);
    }
  }
  registered_[first] = bytes;
  return {};
}

Result<uint64_t> Heap::registered_size(const void* memory) const {
  const auto found = registered_.find(uintptr_t(memory));
  if (found == registered_.end()) {
    return error(SK_ERR_INVALID_ARGUMENT, "memory {} is not registered", memory);
  }
  return found->second;
}

void Heap::remove_registered(void* memory) { registered_.erase(uintptr_t(memory)); }

std::optional<Reach> Heap::find(const void* data, uint64_t bytes) const {
  const auto* address = static_cast<const std::byte*>(data);
  const uint64_t in_segment = uint64_t(address - base());
  const uint64_t offset = in_segment - endpoint_.layout().heap_offset();
  if (offset < endpoint_.layout().heap_bytes_max) {
    auto block = blocks_.upper_bound(offset);
    if (block == blocks_.begin()) return std::nullopt;
    --block;
    const uint64_t asked = block->second.asked, at = offset - block->first;
    if (bytes > asked || at > asked - bytes) return std::nullopt;
    return Reach{in_segment};
  }
  if (!endpoint_.mapped()) return std::nullopt;  // Puts reach segments alone.
  auto found = registered_.upper_bound(uintptr_t(address));
  if (found == registered_.begin()) return std::nullopt;
  --found;
  if (bytes > found->second || uintptr_t(address) - found->first > found->second - bytes) {
    return std::nullopt;
  }
  return Reach{in_segment};  // Wraps around; so does the peer's addition.
}

}  // namespace sk
