// Handles that check themselves: a pointer-sized number naming a slot and its generation, so that a
// freed or foreign handle is a sentence, not a crash.
#ifndef SK_LIB_API_HANDLES_H_
#define SK_LIB_API_HANDLES_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/status.h"

namespace sk::api {

// Objects of one public type. Two kinds of use: exclusive (one call at a time per object), and
// pinned (beside an exclusive one, for sk_comm_abort()). One table per type and process; an object
// belongs to the context that made it, the table only knows where it is.
template <typename T>
class HandleTable {
  struct Slot {
    std::atomic<uint64_t> generation{0};  // 0 while free.
    std::atomic<bool> in_use{false};
    std::atomic<int> pins{0};
    std::unique_ptr<T> object;
  };
  static constexpr size_t kSlotCount = 1 << 14;
  static constexpr uint64_t kIndexBits = 16;

 public:
  class Use {
   public:
    Use(Slot* slot, bool exclusive) : slot_(slot), exclusive_(exclusive) {}
    Use(Use&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {
      exclusive_ = other.exclusive_;
    }
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (slot_ == nullptr) return;
      if (exclusive_) {
        slot_->in_use.store(false, std::memory_order_release);
      } else {
        slot_->pins.fetch_sub(1, std::memory_order_release);
      }
    }
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object.get(); }

   private:
    friend class HandleTable;
    Slot* slot_;
    bool exclusive_;
  };

  explicit HandleTable(const char* what) : what_(what) {}

  Result<void*> add(std::unique_ptr<T> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t index = next_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (next_ < kSlotCount) {
      ++next_;
    } else {
      return error(SK_ERR_NO_MEMORY, "{} {} handles are alive, more are not possible", kSlotCount,
                   what_);
    }
    slots_[index].object = std::move(object);
    const uint64_t generation = ++generations_;
    slots_[index].generation.store(generation, std::memory_order_release);
    return std::bit_cast<void*>(uintptr_t(generation << kIndexBits | index));
  }

  Result<Use> use(const void* handle) {
    Slot* slot = find(handle);
    if (slot == nullptr) return bad(handle);
    if (slot->in_use.exchange(true, std::memory_order_acquire)) {
      return error(SK_ERR_BUSY, "another thread is inside a call on this {}", what_);
    }
    Use use(slot, true);
    if (find(handle) != slot) return bad(handle);  // Freed between the look and the claim.
    return use;
  }

  Result<Use> pin(const void* handle) {
    Slot* slot = find(handle);
    if (slot == nullptr) return bad(handle);
    slot->pins.fetch_add(1, std::memory_order_acquire);
    Use use(slot, false);
    if (find(handle) != slot) return bad(handle);
    return use;
  }

  // Runs `body(T&)` on every object that a call is inside of, as pin() would.
  template <typename Body>
  void for_each_in_use(const Body& body) {
    for (Slot& slot : slots_) {
      if (!slot.in_use.load(std::memory_order_acquire)) continue;
      slot.pins.fetch_add(1, std::memory_order_seq_cst);
      if (slot.generation.load(std::memory_order_seq_cst) != 0) body(*slot.object);
      slot.pins.fetch_sub(1, std::memory_order_release);
    }
  }

  // Takes the object out; the handle is dead from here on.
  Result<std::unique_ptr<T>> remove(const void* handle) {
    SK_ASSIGN_OR_RETURN(Use use, this->use(handle));
    Slot& slot = *use.slot_;
    slot.generation.store(0, std::memory_order_seq_cst);
    while (slot.pins.load(std::memory_order_acquire) != 0) {  // A pinned call is a few stores long.
    }
    std::unique_ptr<T> object = std::move(slot.object);
    { const Use ends = std::move(use); }  // Before the slot is another object's.
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(size_t(&slot - slots_.data()));
    return object;
  }

 private:
  Slot* find(const void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    const size_t index = value & ((1 << kIndexBits) - 1);
    if (index >= kSlotCount || value >> kIndexBits == 0) return nullptr;
    Slot& slot = slots_[index];
    const bool live = slot.generation.load(std::memory_order_acquire) == value >> kIndexBits;
    return live ? &slot : nullptr;
  }
  Status bad(const void* handle) const {
    if (handle == nullptr) return error(SK_ERR_BAD_HANDLE, "{} is null", what_);
    return error(SK_ERR_BAD_HANDLE, "{} is not a {} handle, or was freed", handle, what_);
  }

  const char* what_;
  std::array<Slot, kSlotCount> slots_;
  std::mutex mutex_;
  std::vector<size_t> free_;
  size_t next_ = 0;
  uint64_t generations_ = 0;
};

}  // namespace sk::api

#endif  // SK_LIB_API_HANDLES_H_
