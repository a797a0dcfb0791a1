#include "lib/api/serial_turns.h"

#include <algorithm>
#include <array>
#include <span>

#include "lib/api/handles.h"
#include "lib/tile/user_table.h"

namespace sk::api {
namespace {

// By the tile's number in this process. A tile that takes the number of one that is gone finds
// nobody here: who was here kept that one from going.
struct Slot {
  std::atomic<uint64_t> word{0};     // 0 while nobody has the turn.
  std::atomic<uintptr_t> holder{0};  // this_thread() of whoever has it; 0 at times.
  std::atomic<uint32_t> pins{0};
  TurnQueue turns;
};
constinit std::array<Slot, kUserTilesMax> slots;
constinit std::atomic<size_t> used{0};  // Slots from here on never were.

constexpr uint64_t kMine = uint64_t{1} << kClaimShift;

void note_used(size_t index) {
  size_t known = used.load(std::memory_order_relaxed);
  while (known <= index && !used.compare_exchange_weak(known, index + 1)) {
  }
}

Status wait(Slot& slot, const UserTile& tile, const Turn& turn, int64_t usual_ns) {
  const std::string& name = tile.text().name;
  if (InsideTile::is()) {
    return error(
        SK_ERR_BUSY,
        "called from inside a tile, while tile {}, which is serial, is in a call, which may "
        "be the same",
        name);
  }
  if (slot.holder.load(std::memory_order_relaxed) == this_thread())
    return inside_call(fmt::format("of tile {}, which is serial", name));
  if (TurnQueue::take_soon(slot.word, kMine)) return {};
  const int64_t limit_ns = turn.limit_ns != 0 ? turn.limit_ns : usual_ns;
  const TurnQueue::Outcome outcome = slot.turns.wait({slot.word, slot.pins}, kMine, limit_ns, turn);
  if (outcome == TurnQueue::Outcome::kMine) return {};
  return no_turn(fmt::format("of tile {}, which is serial,", name), outcome, limit_ns);
}

}  // namespace

Result<SerialTurn> SerialTurn::take(const UserTile& tile, const Turn& turn, int64_t usual_ns) {
  if (!tile.text().serial) [[likely]]
    return SerialTurn(kNone);
  const size_t index = size_t(tile.id) - size_t(TaskOp::kUserFirst);
  Slot& slot = slots[index];
  note_used(index);
  uint64_t is = 0;
  if (!slot.word.compare_exchange_strong(is, kMine, std::memory_order_seq_cst))
    SK_RETURN_IF_ERROR(wait(slot, tile, turn, usual_ns));
  slot.holder.store(this_thread(), std::memory_order_relaxed);
  return SerialTurn(index);
}

SerialTurn::~SerialTurn() {
  if (index_ == kNone) return;
  Slot& slot = slots[index_];
  slot.holder.store(0, std::memory_order_relaxed);
  uint64_t is = kMine;
  if (!slot.word.compare_exchange_strong(is, 0, std::memory_order_release))
    slot.turns.pass(slot.word, kMine);
}

void SerialTurn::forget_all() {
  for (Slot& slot : std::span(slots).first(used.load())) {
    slot.word.store(0);
    slot.holder.store(0);
    slot.pins.store(0);
    slot.turns.forget();
  }
}

}  // namespace sk::api
