// Handles that check themselves: a pointer-sized number naming a kind, a slot and its generation,
// so that a freed handle, one of another kind, or no handle at all is a sentence, not a crash.
#ifndef SK_LIB_API_HANDLES_H_
#define SK_LIB_API_HANDLES_H_

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "lib/base/futex.h"
#include "lib/base/inside_tile.h"
#include "lib/base/interruption.h"
#include "lib/base/status.h"

namespace sk::api {

// Part of a handle's value; 0 is none.
enum class HandleKind : uint32_t {
  kContext = 1,
  kComm = 2,
  kPacked = 3,
  kPlan = 4,
  kTopo = 5,
  kSession = 6,
  kWorker = 7,
  kOp = 8,
};
// "communicator", "packed weights", ...
const char* handle_kind_name(HandleKind kind);

// From the top: generation, 4 bits of kind, 16 bits of slot.
inline constexpr uint64_t kIndexBits = 16, kKindBits = 4;

// Longest wait for another thread's call on the same object to end.
inline constexpr int64_t kTurnNs = 300'000'000'000;

// What a refused handle is told: that it is null, of another kind, or not alive.
Status bad_handle(HandleKind wanted, const void* handle);

// Objects of one public type. Two kinds of use: exclusive (one call at a time per object), and
// pinned (any number, beside an exclusive one). One table per type and process; an object belongs
// to the context that made it, the table only knows where it is.
//
// An object that is made for another one, as a plan is for its communicator, needs no claim of its
// own for a call that has the other's: that is claimed in its name, use_for(), and it cannot be
// removed meanwhile, remove_from().
//
// All of it is zero at first and nothing of it is destroyed or allocated: a table of static storage
// serves calls that come during exit, costs no memory that is not used, and goes with the library
// when that is unloaded. No lock is held by anyone, so that a fork finds none held either.
template <typename T, HandleKind kind>
class HandleTable {
  struct Slot {
    std::atomic<uint64_t> generation{0};  // 0 while free or on its way.
    std::atomic<bool> taken{false};       // Belongs to an object that is alive, comes or goes.
    std::atomic<uint32_t> in_use{0};      // While a call has it: kCall, or whose name_of() it is.
    std::atomic<bool> queues{false};      // Whoever finds it in use waits for its turn.
    std::atomic<int32_t> waiting{0};      // For that.
    std::atomic<int32_t> pins{0};
    std::atomic<pid_t> owner{0};               // The process that made it.
    std::atomic<const void*> parent{nullptr};  // The handle that it was made for.
    T* object = nullptr;
  };
  static constexpr size_t kSlotCount = 1 << 14;
  static constexpr uint32_t kCall = 1;

 public:
  // Of an object, for as long as it is alive: what its calls claim its parent as. Not kCall.
  static uint32_t name_of(const void* handle) {
    return (uint32_t(kind) << kIndexBits) + uint32_t(index_of(handle));
  }

  class Use {
   public:
    Use(Slot* slot, bool exclusive) : slot_(slot), exclusive_(exclusive) {}
    Use(Use&& other) noexcept
        : slot_(std::exchange(other.slot_, nullptr)), exclusive_(other.exclusive_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (slot_ == nullptr) return;
      if (exclusive_)
        release(*slot_);
      else
        unpin(*slot_);
    }
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object; }

   private:
    friend class HandleTable;
    Slot* slot_;
    bool exclusive_;
  };

  // `queues`: calls of several threads wait for each other, where they would be refused.
  Result<void*> add(std::unique_ptr<T> object, bool queues = false, const void* parent = nullptr) {
    const size_t start = hint_.load(std::memory_order_relaxed);
    for (size_t tries = 0; tries < kSlotCount; ++tries) {
      const size_t index = (start + tries) % kSlotCount;
      Slot& slot = slots_[index];
      if (slot.taken.load(std::memory_order_relaxed)) continue;
      if (slot.taken.exchange(true, std::memory_order_acquire)) continue;
      size_t used = used_.load(std::memory_order_relaxed);
      while (used <= index && !used_.compare_exchange_weak(used, index + 1)) {
      }
      slot.object = object.release();
      slot.queues.store(queues, std::memory_order_relaxed);
      slot.owner.store(getpid(), std::memory_order_relaxed);
      slot.parent.store(parent, std::memory_order_relaxed);
      const uint64_t generation = generations_.fetch_add(1, std::memory_order_relaxed) + 1;
      slot.generation.store(generation, std::memory_order_release);
      hint_.store(index + 1, std::memory_order_relaxed);
      return std::bit_cast<void*>(
          uintptr_t(((generation << kKindBits | uint64_t(kind)) << kIndexBits) | index));
    }
    return error(SK_ERR_NO_MEMORY, "{} {} handles are alive, more are not possible", kSlotCount,
                 handle_kind_name(kind));
  }

  // `turn_ns`: how long to wait for another thread's call, where calls queue. `claim`: whose call.
  Result<Use> use(const void* handle, int64_t turn_ns = kTurnNs, uint32_t claim = kCall) {
    Slot* slot = find(handle);
    if (slot == nullptr) return refused(handle);
    uint32_t by = 0;
    if (!slot->in_use.compare_exchange_strong(by, claim, std::memory_order_seq_cst)) {
      if (by == claim && claim != kCall) {
        return error(SK_ERR_BUSY, "another thread is inside a call on this {}",
                     handle_kind_name(HandleKind(claim >> kIndexBits)));
      }
      if (!slot->queues.load(std::memory_order_relaxed)) {
        return error(SK_ERR_BUSY, "another thread is inside a call on this {}",
                     handle_kind_name(kind));
      }
      if (InsideTile::is()) {
        return error(SK_ERR_BUSY,
                     "called from inside a tile, while this {} is in a call, which "
                     "may be the tile's own",
                     handle_kind_name(kind));
      }
      SK_RETURN_IF_ERROR(take_turn(*slot, handle, turn_ns, claim));
    }
    Use use(slot, true);
    if (find(handle) != slot) return refused(handle);  // Freed between look and claim.
    return use;
  }

  // The claim of an object's parent, of the table `parents`, in its name, and the object, which
  // stays as long as that.
  template <typename Parents>
  Result<std::pair<typename Parents::Use, T*>> use_for(Parents& parents, const void* handle) {
    const Slot* slot = find(handle);
    if (slot == nullptr) return refused(handle);
    auto claim =
        parents.use(slot->parent.load(std::memory_order_relaxed), kTurnNs, name_of(handle));
    if (!claim.ok()) {
      if (claim.status().code() != SK_ERR_BAD_HANDLE) return std::move(claim.status());
      return error(SK_ERR_BAD_HANDLE, "the {}'s communicator was freed", handle_kind_name(kind));
    }
    // Whoever removes it looks at the parent behind its generation: it has seen this claim, and
    // puts the generation back, or it is removed.
    while (find(handle) != slot) {
      if (slot->in_use.load(std::memory_order_seq_cst) == 0 && find(handle) != slot)
        return refused(handle);
      std::this_thread::yield();
    }
    return std::pair<typename Parents::Use, T*>(std::move(*claim), slot->object);
  }

  // Takes out an object that has such uses: SK_ERR_BUSY, and nothing has changed, inside of one.
  template <typename Parents>
  Result<std::unique_ptr<T>> remove_from(Parents& parents, const void* handle) {
    SK_ASSIGN_OR_RETURN(Use use, this->use(handle));
    Slot& slot = *use.slot_;
    const uint64_t generation = slot.generation.exchange(0, std::memory_order_seq_cst);
    if (parents.claim_of(slot.parent.load(std::memory_order_relaxed)) != name_of(handle))
      return take_out(std::move(use));
    slot.generation.store(generation, std::memory_order_seq_cst);
    return error(SK_ERR_BUSY, "another thread is inside a call on this {}", handle_kind_name(kind));
  }

  // Whose call it is in; 0: in none, or it is gone.
  uint32_t claim_of(const void* handle) {
    const Slot* slot = find(handle);
    return slot == nullptr ? 0 : slot->in_use.load(std::memory_order_seq_cst);
  }

  // The same without a sentence, for what may be asked often.
  std::optional<Use> try_pin(const void* handle) {
    Slot* slot = find(handle);
    if (slot == nullptr) return std::nullopt;
    slot->pins.fetch_add(1, std::memory_order_seq_cst);
    Use use(slot, false);
    if (find(handle) != slot) return std::nullopt;
    return use;
  }

  Result<Use> pin(const void* handle) {
    std::optional<Use> use = try_pin(handle);
    if (!use) return refused(handle);
    return std::move(*use);
  }

  // As pin(), but a handle of the process that this one was forked from is refused.
  Result<Use> pin_here(const void* handle) {
    SK_RETURN_IF_ERROR(check_owner(handle));
    return pin(handle);
  }

  // Runs `body(T&)` on every object that a call is inside of, as pin() would.
  template <typename Body>
  void for_each_in_use(const Body& body) {
    const size_t used = used_.load(std::memory_order_acquire);
    for (Slot& slot : std::span(slots_).first(used)) {  // Asked at the end of every cell.
      if (!slot.in_use.load(std::memory_order_acquire)) continue;
      slot.pins.fetch_add(1, std::memory_order_seq_cst);
      if (slot.generation.load(std::memory_order_seq_cst) != 0) body(*slot.object);
      unpin(slot);
    }
  }

  // Takes the object out; the handle is dead from here on. `part(T&)` runs first and makes pinned
  // calls end that wait; nobody can begin another one by then.
  template <typename Part>
  Result<std::unique_ptr<T>> remove(const void* handle, const Part& part) {
    SK_ASSIGN_OR_RETURN(Use use, this->use(handle));
    Slot& slot = *use.slot_;
    slot.generation.store(0, std::memory_order_seq_cst);
    part(*slot.object);
    for (int32_t pins = 0; (pins = slot.pins.load(std::memory_order_seq_cst)) != 0;)
      slot.pins.wait(pins, std::memory_order_seq_cst);
    return take_out(std::move(use));
  }
  Result<std::unique_ptr<T>> remove(const void* handle) {
    return remove(handle, [](T&) {});
  }

  // The same for an object whose calls may wait long: SK_ERR_BUSY, and nothing has changed, while
  // a thread is inside one.
  Result<std::unique_ptr<T>> remove_idle(const void* handle) {
    SK_RETURN_IF_ERROR(check_owner(handle));
    SK_ASSIGN_OR_RETURN(Use use, this->use(handle));
    Slot& slot = *use.slot_;
    const uint64_t generation = slot.generation.exchange(0, std::memory_order_seq_cst);
    if (slot.pins.load(std::memory_order_seq_cst) == 0) return take_out(std::move(use));
    slot.generation.store(generation, std::memory_order_seq_cst);
    return error(SK_ERR_BUSY, "another thread is inside a call on this {}", handle_kind_name(kind));
  }

  // In a forked child, whose threads call nothing else meanwhile: its parent's handles are refused
  // from here on. Their objects stay as they are, with memory and threads that are the parent's.
  void forget_all() {
    for (Slot& slot : std::span(slots_).first(used_.load())) {
      slot.generation.store(0);
      slot.in_use.store(0);
      slot.waiting.store(0);
      slot.pins.store(0);
      slot.object = nullptr;
      slot.taken.store(false);
    }
    forgotten_.store(generations_.load());
  }

  Status check_owner(const void* handle) {
    const Slot* slot = find(handle);
    if (slot == nullptr) return refused(handle);
    const pid_t owner = slot->owner.load(std::memory_order_relaxed);
    if (owner == getpid()) return {};
    return error(SK_ERR_FORKED, "this {} is of process {}, from which this one was forked",
                 handle_kind_name(kind), owner);
  }

 private:
  static void release(Slot& slot) {
    if (!slot.queues.load(std::memory_order_relaxed)) [[likely]]
      return slot.in_use.store(0, std::memory_order_release);
    // In one order with take_turn(): it has counted itself before it looks, so either it finds the
    // object free, or it is seen here.
    slot.in_use.store(0, std::memory_order_seq_cst);
    if (slot.waiting.load(std::memory_order_seq_cst) != 0) futex_wake(slot.in_use, 1);
  }
  // Waits until the object is not in use, and claims it; an error where it is gone before that, not
  // free in time, or where its owner's interruption is due.
  Status take_turn(Slot& slot, const void* handle, int64_t turn_ns, uint32_t claim) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(turn_ns);
    const Interruption interruption = interruption_of(handle);
    // It may run what takes long, so it is asked while nobody counts on this thread.
    for (bool first = true;; first = false) {
      if (!first && interruption.is_due()) {
        return error(SK_ERR_ABORTED, "interrupted while another thread's call on this {} ran",
                     handle_kind_name(kind));
      }
      const Clock::time_point ask = Clock::now() + std::chrono::nanoseconds(Interruption::kAskNs);
      slot.waiting.fetch_add(1, std::memory_order_seq_cst);
      bool mine = false, here = false;
      while ((here = find(handle) == &slot)) {
        uint32_t by = 0;
        mine = slot.in_use.compare_exchange_strong(by, claim, std::memory_order_seq_cst);
        const int64_t left = std::chrono::nanoseconds(std::min(ask, until) - Clock::now()).count();
        if (mine || left <= 0) break;
        futex_wait(slot.in_use, by, left);
      }
      slot.waiting.fetch_sub(1, std::memory_order_seq_cst);
      if (!here) return refused(handle);
      if (mine) return {};
      if (Clock::now() >= until) {
        return error(SK_ERR_TIMEOUT, "another thread's call on this {} has not ended for {:.3g} s",
                     handle_kind_name(kind), double(turn_ns) * 1e-9);
      }
    }
  }
  // Of an object that has one, which is its context's; none of one that is gone.
  Interruption interruption_of(const void* handle) {
    if constexpr (requires(const T& object) { Interruption(object.interruption); }) {
      if (const std::optional<Use> held = try_pin(handle)) return (*held)->interruption;
    }
    return {};
  }
  static void unpin(Slot& slot) {
    const bool last = slot.pins.fetch_sub(1, std::memory_order_seq_cst) == 1;
    if (last && slot.generation.load(std::memory_order_seq_cst) == 0) slot.pins.notify_all();
  }
  std::unique_ptr<T> take_out(Use use) {
    Slot& slot = *use.slot_;
    std::unique_ptr<T> object(std::exchange(slot.object, nullptr));
    { const Use ends = std::move(use); }  // Before the slot is another object's.
    // Whoever still waits for its turn hears that there is none, and has left the slot by then.
    while (slot.waiting.load(std::memory_order_seq_cst) != 0) {
      futex_wake(slot.in_use, INT_MAX);
      std::this_thread::yield();
    }
    slot.taken.store(false, std::memory_order_release);
    hint_.store(size_t(&slot - slots_.data()), std::memory_order_relaxed);
    return object;
  }
  Status refused(const void* handle) const {
    const auto value = uint64_t(reinterpret_cast<uintptr_t>(handle));
    const uint64_t generation = value >> (kIndexBits + kKindBits);
    const auto its = HandleKind(value >> kIndexBits & ((1 << kKindBits) - 1));
    if (its == kind && generation != 0 && generation <= forgotten_.load()) {
      return error(SK_ERR_FORKED, "this {} is of the process from which this one was forked",
                   handle_kind_name(kind));
    }
    return bad_handle(kind, handle);
  }
  static size_t index_of(const void* handle) {
    return size_t(reinterpret_cast<uintptr_t>(handle)) & ((1 << kIndexBits) - 1);
  }
  Slot* find(const void* handle) {
    const auto value = uint64_t(reinterpret_cast<uintptr_t>(handle));
    const size_t index = index_of(handle);
    const uint64_t generation = value >> (kIndexBits + kKindBits);
    const auto its = HandleKind(value >> kIndexBits & ((1 << kKindBits) - 1));
    if (index >= kSlotCount || generation == 0 || its != kind) return nullptr;
    Slot& slot = slots_[index];
    const bool live = slot.generation.load(std::memory_order_seq_cst) == generation;
    return live ? &slot : nullptr;
  }

  std::array<Slot, kSlotCount> slots_{};
  std::atomic<size_t> hint_{0};  // Where a free slot is likely: the one used last.
  std::atomic<size_t> used_{0};  // Slots from here on never were.
  std::atomic<uint64_t> generations_{0};
  std::atomic<uint64_t> forgotten_{0};  // Up to this one they were the parent's.
};

}  // namespace sk::api

#endif  // SK_LIB_API_HANDLES_H_
