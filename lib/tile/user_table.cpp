#include "lib/tile/user_table.h"

#include <array>
#include <atomic>

namespace sk {
namespace {

// Zero at first and never destroyed, so that calls during exit find it.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<const UserTile*> tile{nullptr};
};
constinit std::array<Slot, kUserTilesMax> slots;

constexpr size_t kFirst = size_t(TaskOp::kUserFirst);

// A number that nobody has, until it is published or given back.
class Number {
 public:
  static Result<Number> take() {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].taken.exchange(true, std::memory_order_acquire)) return Number(i);
    }
    return error(SK_ERR_NO_MEMORY, "{} tiles are registered in this process, more are not possible",
                 slots.size());
  }
  Number(Number&& other) noexcept : index_(std::exchange(other.index_, slots.size())) {}
  Number& operator=(Number&&) = delete;
  ~Number() {
    if (index_ < slots.size()) slots[index_].taken.store(false, std::memory_order_release);
  }
  TaskOp number() const { return TaskOp(kFirst + index_); }
  void publish(const UserTile* tile) && {
    slots[std::exchange(index_, slots.size())].tile.store(tile, std::memory_order_release);
  }

 private:
  explicit Number(size_t index) : index_(index) {}
  size_t index_;
};

}  // namespace

const UserTile* user_tile(TaskOp number) {
  const size_t index = size_t(number) - kFirst;
  return index < slots.size() ? slots[index].tile.load(std::memory_order_acquire) : nullptr;
}

TileSet::~TileSet() {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    Slot& slot = slots[size_t(entry->tile->id) - kFirst];
    slot.tile.store(nullptr, std::memory_order_relaxed);
    slot.taken.store(false, std::memory_order_release);
  }
}

Result<OpKind> TileSet::add(TileText text, TileFunction function, bool replaces) {
  const std::lock_guard lock(mutex_);
  Entry* before = nullptr;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (!entry->is_there || entry->tile->text().name != text.name) continue;
    const bool same = entry->tile->text() == text;
    if (same && entry->tile->function() == function) return entry->tile->schema().id;
    if (replaces) {
      before = entry.get();
      break;
    }
    return error(SK_ERR_INVALID_ARGUMENT,
                 "a tile {} is registered already, as operation {} and with another {}: unregister "
                 "that, or give this one another name",
                 text.name, int(entry->tile->schema().id), same ? "function" : "description");
  }
  const size_t id = size_t(OpKind::kUserFirst) + entries_.size();
  SK_ASSIGN_OR_RETURN(Number number, Number::take());
  SK_ASSIGN_OR_RETURN(auto tile,
                      UserTile::make(std::move(text), function, OpKind(id), number.number()));
  auto entry = std::make_unique<Entry>();
  entry->tile = std::move(tile);
  if (before != nullptr) SK_RETURN_IF_ERROR(check_unused(*before));
  entries_.push_back(std::move(entry));
  if (before != nullptr) before->is_there = false;
  std::move(number).publish(entries_.back()->tile.get());
  return OpKind(id);
}

TileSet::Entry* TileSet::find(int32_t id) {
  const int64_t index = int64_t(id) - int64_t(OpKind::kUserFirst);
  if (index < 0 || index >= int64_t(entries_.size())) return nullptr;
  Entry* entry = entries_[size_t(index)].get();
  return entry->is_there ? entry : nullptr;
}

std::string TileSet::known() const {
  std::string text;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (!entry->is_there) continue;
    const Schema& schema = entry->tile->schema();
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", int(schema.id), schema.name);
  }
  return text.empty() ? "none" : text;
}

Status TileSet::remove(int32_t id) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id);
  if (entry == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "op is {}, which is no tile of this context: there are {}", id, known());
  }
  SK_RETURN_IF_ERROR(check_unused(*entry));
  entry->is_there = false;
  return {};
}

Status TileSet::check_unused(const Entry& entry) {
  if (entry.uses == 0) return {};
  return error(SK_ERR_BUSY, "{} thread(s) are inside a call of tile {}", entry.uses,
               entry.tile->text().name);
}

TileSet::Use::~Use() {
  if (entry_ == nullptr) return;
  const std::lock_guard lock(set_.mutex_);
  --entry_->uses;
}

Result<TileSet::Use> TileSet::use(int32_t id) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(id);
  if (entry == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "op is {}, which is no tile of this context: there are {}", id, known());
  }
  return Use(*this, *entry);
}

Result<TileSet::Use> TileSet::use(std::string_view name) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->is_there && entry->tile->text().name == name) return Use(*this, *entry);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "no tile of this context is called {}: there are {}",
               quoted_text(name), known());
}

std::vector<TileSet::Use> TileSet::all() {
  const std::lock_guard lock(mutex_);
  std::vector<Use> out;
  out.reserve(entries_.size());
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->is_there) out.push_back(Use(*this, *entry));
  }
  return out;
}

}  // namespace sk
