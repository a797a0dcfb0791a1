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
#include <string_view>
#include <thread>
#include <utility>

#include "lib/api/held.h"
#include "lib/api/turns.h"
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

// Longest wait for another thread's calls on an object to end, where nothing else is said.
inline constexpr int64_t kTurnNs = 300'000'000'000;

// What a refused handle is told: that it is null, of another kind, or not alive.
Status bad_handle(HandleKind wanted, const void* handle);
// Of an object that is in a call, or that another thread takes away.
Status busy_handle(HandleKind kind, bool ends);
// Of an object for which this thread would wait while it is inside of a call on it.
Status inside_call(HandleKind kind);
// The same of a call as its sentence has it: "on the same communicator".
Status inside_call(std::string_view call);
// Of an object that may be one of the many that this thread is inside of.
Status inside_too_many(HandleKind kind);
// Of a thread that is to wait once more, inside of functions of its own waits.
Status waits_too_deep(HandleKind kind);
// Why the turn of an object did not come.
Status no_turn(HandleKind kind, TurnQueue::Outcome why, int64_t limit_ns);
// The same of calls as the sentence has them: "on this communicator". Of what nobody takes away.
Status no_turn(std::string_view calls, TurnQueue::Outcome why, int64_t limit_ns);

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
// when that is unloaded. A forked child forgets all of it, and so who waited or held a lock.
template <typename T, HandleKind kind>
class HandleTable {
  using Clock = std::chrono::steady_clock;
  struct alignas(64) Slot {  // Calls on other objects write other lines of the cache.
    // The object's generation, and below it whose turn it is; 0 while free or on its way.
    std::atomic<uint64_t> word{0};
    // this_thread() of the call that has its turn; 0 at times. A thread finds itself there just
    // while it has it.
    std::atomic<uintptr_t> holder{0};
    T* object = nullptr;
    std::atomic<const void*> parent{nullptr};  // The handle that it was made for.
    std::atomic<uint32_t> turn_ms{0};  // So long whoever finds it in use waits for its turn.
    std::atomic<uint32_t> pins{0};
    std::atomic<pid_t> owner{0};  // The process that made it.
    [[no_unique_address]] TurnQueue turns;
    std::atomic<bool> taken{false};  // Belongs to an object that is alive, comes or goes.
    std::atomic<uint16_t> turn{0};   // Counted: tells the call that has it from those before.
  };
  static_assert(sizeof(Slot) == 64);
  static constexpr size_t kSlotBits = 14;
  static constexpr size_t kSlotCount = 1 << kSlotBits;
  // A claim is a call's own, or whose name_of() it is.
  static constexpr uint64_t kCall = uint64_t{1} << kClaimShift;
  static_assert(kSlotBits + kKindBits + kClaimShift == kTurnBits);

 public:
  // Of an object, for as long as it is alive: what its calls claim its parent as. Not kCall.
  static uint64_t name_of(const void* handle) {
    return (uint64_t(kind) << kSlotBits | index_of(handle)) << kClaimShift;
  }

  // Ends on the thread that has it.
  class Use {
   public:
    // `word`: the object's while nobody waits; one without a claim pins.
    Use(Slot* slot, uint64_t word) : slot_(slot), word_(word) {
      if (has_turn()) {
        slot->holder.store(this_thread(), std::memory_order_relaxed);
        // Whoever has the turn is alone here.
        const auto turn = slot->turn.load(std::memory_order_relaxed);
        slot->turn.store(uint16_t(turn + 1), std::memory_order_relaxed);
      } else {
        PinnedHere::add(slot, word);
      }
    }
    Use(Use&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), word_(other.word_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (slot_ == nullptr) return;
      if (has_turn()) {
        release(*slot_, word_);
      } else {
        PinnedHere::drop(slot_, word_);
        unpin(slot_->word, slot_->pins);
      }
    }
    T& operator*() const { return *slot_->object; }
    T* operator->() const { return slot_->object; }

   private:
    friend class HandleTable;
    bool has_turn() const { return (word_ & kClaimMask) != 0; }

    Slot* slot_;
    uint64_t word_;
  };

  // The one user of an object that is to go, until take() has it or this ends: then all is as
  // before.
  class Ending {
   public:
    Ending(HandleTable& table, Use use, Clock::time_point until)
        : table_(&table), use_(std::move(use)), until_(until) {}
    Ending(Ending&&) noexcept = default;
    Ending& operator=(Ending&&) = delete;
    ~Ending() {
      if (use_.slot_ == nullptr) return;
      use_.slot_->turns.open();
      use_.slot_->word.fetch_and(~kEnding, std::memory_order_seq_cst);
    }
    T& operator*() const { return *use_; }
    T* operator->() const { return &*use_; }
    const void* parent() const { return use_.slot_->parent.load(std::memory_order_relaxed); }
    // Of the time that there was for all of it; not negative.
    int64_t left_ns() const {
      return std::max<int64_t>(0, std::chrono::nanoseconds(until_ - Clock::now()).count());
    }

    // Whoever pins it from here on is refused (SK_ERR_BUSY), too.
    void close() { use_.slot_->word.fetch_or(kEnding, std::memory_order_seq_cst); }
    // Closes, and waits for the pinned calls of before, and for functions of callers' that threads
    // run which waited for the turn.
    Status drain() {
      close();
      std::atomic<uint32_t>& pins = use_.slot_->pins;
      for (uint32_t count = 0; (count = pins.load(std::memory_order_seq_cst)) != 0;) {
        const int64_t left = left_ns();
        if (left == 0) {
          return error(SK_ERR_TIMEOUT,
                       "other threads' calls on this {} have not ended; it stays as it is",
                       handle_kind_name(kind));
        }
        futex_wait(pins, count, left);
      }
      return {};
    }
    // Behind drain(). The handle is dead from here on.
    std::unique_ptr<T> take() && {
      Slot& slot = *std::exchange(use_.slot_, nullptr);
      slot.holder.store(0, std::memory_order_relaxed);
      slot.turns.end(slot.word);
      std::unique_ptr<T> object(std::exchange(slot.object, nullptr));
      slot.taken.store(false, std::memory_order_release);
      table_->hint_.store(size_t(&slot - table_->slots_.data()), std::memory_order_relaxed);
      return object;
    }

   private:
    HandleTable* table_;
    Use use_;
    Clock::time_point until_;
  };

  // `turn_ns`: calls of several threads wait for each other, each so long; 0: they are refused.
  // `parent`: whose claim its calls take, if any.
  Result<void*> add(std::unique_ptr<T> object, int64_t turn_ns = 0, const void* parent = nullptr) {
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
      slot.turn_ms.store(ms_of(turn_ns), std::memory_order_relaxed);
      slot.owner.store(getpid(), std::memory_order_relaxed);
      slot.parent.store(parent, std::memory_order_relaxed);
      const uint64_t generation = generations_.fetch_add(1, std::memory_order_relaxed) + 1;
      slot.word.store(generation << kTurnBits, std::memory_order_release);
      hint_.store(index + 1, std::memory_order_relaxed);
      return std::bit_cast<void*>(
          uintptr_t(((generation << kKindBits | uint64_t(kind)) << kIndexBits) | index));
    }
    return error(SK_ERR_NO_MEMORY, "{} {} handles are alive, more are not possible", kSlotCount,
                 handle_kind_name(kind));
  }

  // `turn`: how to wait for another thread's call, where calls queue. `claim`: whose call.
  Result<Use> use(const void* handle, const Turn& turn = {}, uint64_t claim = kCall) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr) return refused(handle);
    const uint64_t mine = alive | claim;
    uint64_t is = alive;
    if (slot->word.compare_exchange_strong(is, mine, std::memory_order_seq_cst)) [[likely]]
      return Use(slot, mine);
    if (is >> kTurnBits != alive >> kTurnBits) return refused(handle);
    const int64_t usual_ns = slot->turn_ms.load(std::memory_order_relaxed) * int64_t{1'000'000};
    if (usual_ns == 0) return busy(*slot, is, claim);
    SK_RETURN_IF_ERROR(take_turn(*slot, handle, mine, usual_ns, turn));
    return Use(slot, mine);
  }

  // The claim of an object's parent, of the table `parents`, in its name, and the object, which
  // stays as long as that.
  //
  // Why it stays: this side (C) claims the parent's word in the object's name, be it that whoever
  // had the turn before writes that, and then (D) reads the object's word. remove_from() (A) closes
  // the object's word, and then (B) reads the parent's. All four are in the one order of seq_cst.
  // Either B comes behind C and finds the name, if the call is not over: then nothing is removed.
  // Or B comes before C, and so A before D: then D finds the object closed, or what came of it. It
  // looks again until it is open, as B has found the name of a call, or gone. In between are a few
  // instructions of the remover's, which waits for nothing there. Where the call is over that B
  // does not find, it has read the word behind that call's release, and so the object as it left
  // it.
  template <typename Parents>
  Result<std::pair<typename Parents::Use, T*>> use_for(Parents& parents, const void* handle,
                                                       const Turn& turn = {}) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr || !is_alive(*slot, alive)) return refused(handle);
    auto claim = claim_for(parents, handle, *slot, alive, turn);
    if (!claim.ok()) {
      if (claim.status().code() != SK_ERR_BAD_HANDLE) return std::move(claim.status());
      return error(SK_ERR_BAD_HANDLE, "the {}'s communicator was freed", handle_kind_name(kind));
    }
    for (;;) {
      const uint64_t is = slot->word.load(std::memory_order_seq_cst);
      if (is >> kTurnBits != alive >> kTurnBits) return refused(handle);
      if ((is & kEnding) == 0) [[likely]]
        return std::pair<typename Parents::Use, T*>(std::move(*claim), slot->object);
      // Not a yield: the remover may have a lower priority, and this thread its core.
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  // Takes out an object that has such uses: SK_ERR_BUSY, and nothing has changed, inside of one.
  template <typename Parents>
  Result<std::unique_ptr<T>> remove_from(Parents& parents, const void* handle) {
    SK_ASSIGN_OR_RETURN(Ending ending, end(handle, /*limit_ns=*/0));
    ending.close();
    if (parents.claim_of(ending.parent()) == name_of(handle)) {
      return parents.is_mine(ending.parent()) ? inside_call(kind)
                                              : busy_handle(kind, /*ends=*/false);
    }
    if (!ending.drain().ok()) return busy_handle(kind, /*ends=*/false);
    return std::move(ending).take();
  }

  // As use(), of an object that nobody has; none: wait for it.
  std::optional<Use> try_use(const void* handle, uint64_t claim) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr) return std::nullopt;
    uint64_t is = alive;
    if (!slot->word.compare_exchange_strong(is, alive | claim, std::memory_order_seq_cst))
      return std::nullopt;
    return std::optional<Use>(std::in_place, slot, alive | claim);
  }

  // Whose call it is in; 0: in none, or it is gone.
  uint64_t claim_of(const void* handle) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr) return 0;
    const uint64_t is = slot->word.load(std::memory_order_seq_cst);
    return is >> kTurnBits == alive >> kTurnBits ? is & kClaimMask : 0;
  }

  // Whether this thread is inside of a call that has the object's turn.
  bool is_mine(const void* handle) {
    const auto [slot, alive] = place_of(handle);
    return slot != nullptr && is_alive(*slot, alive) && has_turn(*slot);
  }

  // The same without a sentence, for what may be asked often.
  std::optional<Use> try_pin(const void* handle) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr) return std::nullopt;
    Use use = count_in(*slot, alive);
    const uint64_t is = slot->word.load(std::memory_order_seq_cst);
    if (is >> kTurnBits != alive >> kTurnBits || (is & kEnding) != 0) return std::nullopt;
    return use;
  }

  Result<Use> pin(const void* handle) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr) return refused(handle);
    Use use = count_in(*slot, alive);
    const uint64_t is = slot->word.load(std::memory_order_seq_cst);
    if (is >> kTurnBits != alive >> kTurnBits) return refused(handle);
    if ((is & kEnding) != 0)
      return has_turn(*slot) ? inside_call(kind) : busy_handle(kind, /*ends=*/true);
    return use;
  }

  // As pin(), but a handle of the process that this one was forked from is refused.
  Result<Use> pin_here(const void* handle) {
    SK_RETURN_IF_ERROR(check_owner(handle));
    return pin(handle);
  }

  // Runs `body(T&, turn)` on every object that a call is inside of, as pin() would. The same `turn`
  // of an object is the same call, but for one of 65,536.
  template <typename Body>
  void for_each_in_use(const Body& body) {
    const size_t used = used_.load(std::memory_order_acquire);
    for (Slot& slot : std::span(slots_).first(used)) {  // Asked at the end of every cell.
      const uint64_t was = slot.word.load(std::memory_order_acquire);
      if ((was & kClaimMask) == 0) continue;
      const Use use = count_in(slot, was & ~kTurnMask);
      const uint64_t is = slot.word.load(std::memory_order_seq_cst);
      if (is >> kTurnBits == was >> kTurnBits && (is & kEnding) == 0)
        body(*slot.object, slot.turn.load(std::memory_order_relaxed));
    }
  }

  // Waits for the object's turn, `limit_ns` in all for whatever is to be waited for. Who waits for
  // it, too, or is to, is refused (SK_ERR_BUSY) from here on: it may pin the object, or what that
  // belongs to. So is this thread, at once, where it is itself inside of the object.
  Result<Ending> end(const void* handle, int64_t limit_ns = kTurnNs) {
    const auto [slot, alive] = place_of(handle);
    if (slot != nullptr && is_alive(*slot, alive) &&
        (has_turn(*slot) || PinnedHere::has(slot, alive)))
      return inside_call(kind);
    if (!PinnedHere::knows_all()) return inside_too_many(kind);
    const Clock::time_point until = Clock::now() + std::chrono::nanoseconds(limit_ns);
    SK_ASSIGN_OR_RETURN(
        Use use, this->use(handle, {.limit_ns = std::max<int64_t>(1, limit_ns), .ends = true}));
    if (slot->turn_ms.load(std::memory_order_relaxed) != 0) slot->turns.refuse(slot->word);
    return Ending(*this, std::move(use), until);
  }

  // Takes the object out; where calls on it do not end in time, SK_ERR_TIMEOUT, and it stays.
  Result<std::unique_ptr<T>> remove(const void* handle, int64_t limit_ns = kTurnNs) {
    SK_ASSIGN_OR_RETURN(Ending ending, end(handle, limit_ns));
    SK_RETURN_IF_ERROR(ending.drain());
    return std::move(ending).take();
  }

  // The same for an object whose calls may wait long: SK_ERR_BUSY, and nothing has changed, while
  // a thread is inside one.
  Result<std::unique_ptr<T>> remove_idle(const void* handle) {
    SK_RETURN_IF_ERROR(check_owner(handle));
    SK_ASSIGN_OR_RETURN(Ending ending, end(handle, /*limit_ns=*/0));
    if (!ending.drain().ok()) return busy_handle(kind, /*ends=*/false);
    return std::move(ending).take();
  }

  // In a forked child, whose threads call nothing else meanwhile: its parent's handles are refused
  // from here on. Their objects stay as they are, with memory and threads that are the parent's.
  void forget_all() {
    for (Slot& slot : std::span(slots_).first(used_.load())) {
      slot.word.store(0);
      slot.turns.forget();
      slot.pins.store(0);
      slot.holder.store(0);
      slot.object = nullptr;
      slot.taken.store(false);
    }
    forgotten_.store(generations_.load());
  }

  Status check_owner(const void* handle) {
    const auto [slot, alive] = place_of(handle);
    if (slot == nullptr || !is_alive(*slot, alive)) return refused(handle);
    const pid_t owner = slot->owner.load(std::memory_order_relaxed);
    if (owner == getpid()) return {};
    return error(SK_ERR_FORKED, "this {} is of process {}, from which this one was forked",
                 handle_kind_name(kind), owner);
  }

 private:
  struct Place {
    Slot* slot;      // Null where no handle of this kind is like it.
    uint64_t alive;  // Its word while the object is alive and nobody has it.
  };

  // What this thread waits for.
  class StaysHere {
   public:
    StaysHere(const Slot& slot, uint64_t alive) : slot_(slot), alive_(alive) {
      PinnedHere::add(&slot_, alive_);
    }
    ~StaysHere() { PinnedHere::drop(&slot_, alive_); }
    StaysHere(const StaysHere&) = delete;
    StaysHere& operator=(const StaysHere&) = delete;

   private:
    const Slot& slot_;
    uint64_t alive_;
  };

  // The claim of its parent, in its name. While that is waited for, functions of the wait do not
  // end the object.
  template <typename Parents>
  static Result<typename Parents::Use> claim_for(Parents& parents, const void* handle,
                                                 const Slot& slot, uint64_t alive,
                                                 const Turn& turn) {
    const void* const parent = slot.parent.load(std::memory_order_relaxed);
    if (auto at_once = parents.try_use(parent, name_of(handle))) [[likely]]
      return std::move(*at_once);
    const StaysHere waits(slot, alive);
    return parents.use(parent, turn, name_of(handle));
  }

  static bool is_alive(const Slot& slot, uint64_t alive) {
    return slot.word.load(std::memory_order_acquire) >> kTurnBits == alive >> kTurnBits;
  }

  // Whether it is this thread that has the turn.
  static bool has_turn(const Slot& slot) {
    return slot.holder.load(std::memory_order_relaxed) == this_thread();
  }
  // Of at least so many; 0 of 0 alone.
  static uint32_t ms_of(int64_t ns) {
    return uint32_t(std::min<int64_t>((ns + 999'999) / 1'000'000, UINT32_MAX));
  }

  static void release(Slot& slot, uint64_t mine) {
    const uint64_t alive = mine & ~kTurnMask;
    slot.holder.store(0, std::memory_order_relaxed);
    if (slot.turn_ms.load(std::memory_order_relaxed) == 0) [[likely]]
      return slot.word.store(alive, std::memory_order_release);  // Nobody waits for that.
    uint64_t is = mine;
    if (slot.word.compare_exchange_strong(is, alive, std::memory_order_release)) [[likely]]
      return;
    slot.turns.pass(slot.word, mine);
  }
  static Use count_in(Slot& slot, uint64_t alive) {
    slot.pins.fetch_add(1, std::memory_order_seq_cst);
    return Use(&slot, alive);
  }
  // Why a call does not wait, of an object whose word `is`.
  static Status busy(const Slot& slot, uint64_t is, uint64_t claim) {
    const bool same = claim != kCall && (is & kClaimMask) == claim;
    const auto of = same ? HandleKind(claim >> (kSlotBits + kClaimShift)) : kind;
    if (has_turn(slot)) return inside_call(of);
    return busy_handle(of, /*ends=*/!same && (is & kEnding) != 0);
  }

  [[gnu::noinline]] Status take_turn(Slot& slot, const void* handle, uint64_t mine,
                                     int64_t usual_ns, Turn turn) {
    if (InsideTile::is()) {
      return error(SK_ERR_BUSY,
                   "called from inside a tile, while this {} is in a call, which may be the tile's "
                   "own",
                   handle_kind_name(kind));
    }
    if (has_turn(slot)) return inside_call(kind);
    if (TurnQueue::take_soon(slot.word, mine)) return {};
    if (!PinnedHere::has_room()) return waits_too_deep(kind);
    turn.interruption = interruption_of(slot, mine);
    const int64_t limit_ns = turn.limit_ns != 0 ? turn.limit_ns : usual_ns;
    const StaysHere waits(slot, mine & ~kTurnMask);  // Its functions do not end the object.
    const TurnQueue::Outcome outcome =
        slot.turns.wait({slot.word, slot.pins}, mine, limit_ns, turn);
    if (outcome == TurnQueue::Outcome::kMine) return {};
    return outcome == TurnQueue::Outcome::kGone ? refused(handle)
                                                : no_turn(kind, outcome, limit_ns);
  }
  // Of an object that has one, which is its context's; none of one that is gone. Not by a pin: that
  // would be waited for by whoever takes the object away.
  static Interruption interruption_of(Slot& slot, uint64_t mine) {
    Interruption found;
    if constexpr (requires(const T& object) { Interruption(object.interruption.get()); })
      slot.turns.read_alive(slot.word, mine, [&] { found = slot.object->interruption.get(); });
    return found;
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
  Place place_of(const void* handle) {
    const auto value = uint64_t(reinterpret_cast<uintptr_t>(handle));
    const size_t index = index_of(handle);
    const uint64_t generation = value >> (kIndexBits + kKindBits);
    const auto its = HandleKind(value >> kIndexBits & ((1 << kKindBits) - 1));
    if (index >= kSlotCount || generation == 0 || its != kind) return {nullptr, 0};
    return {&slots_[index], generation << kTurnBits};
  }

  std::array<Slot, kSlotCount> slots_{};
  std::atomic<size_t> hint_{0};  // Where a free slot is likely: the one used last.
  std::atomic<size_t> used_{0};  // Slots from here on never were.
  std::atomic<uint64_t> generations_{0};
  std::atomic<uint64_t> forgotten_{0};  // Up to this one they were the parent's.
};

}  // namespace sk::api

#endif  // SK_LIB_API_HANDLES_H_
