// The tiles of users: by number in the whole process, as tasks name them, and in sets, as contexts
// have them.
#ifndef SK_LIB_TILE_USER_TABLE_H_
#define SK_LIB_TILE_USER_TABLE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lib/tile/user_tile.h"

namespace sk {

// So many may be registered in the life of a process, taken away or not: numbers of sets that are
// gone are taken again.
inline constexpr size_t kUserTilesMax = 8192;

// Null for a number that is none's. It stays one's for as long as the set that has it.
const UserTile* user_tile(TaskOp number);

// Those of one context. What is taken away stays as a record, which plans and traces name, until
// the set goes; its function is not called any more.
class TileSet {
  struct Entry {
    std::unique_ptr<const UserTile> tile;
    size_t uses = 0;
    bool is_there = true;
  };

 public:
  TileSet() = default;
  TileSet(const TileSet&) = delete;
  TileSet& operator=(const TileSet&) = delete;
  ~TileSet();

  // Its number here. One that is there already, alike in all, is found; `replaces`: another of its
  // name goes, once this one is known to be right.
  Result<OpKind> add(TileText text, TileFunction function, bool replaces = false);
  // SK_ERR_BUSY while it is in use.
  Status remove(int32_t id);

  // Keeps a tile from being removed.
  class Use {
   public:
    Use(Use&& other) noexcept : set_(other.set_), entry_(std::exchange(other.entry_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use();
    const UserTile& operator*() const { return *entry_->tile; }
    const UserTile* operator->() const { return entry_->tile.get(); }

   private:
    friend class TileSet;
    Use(TileSet& set, Entry& entry) : set_(set), entry_(&entry) { ++entry.uses; }  // Locked.
    TileSet& set_;
    Entry* entry_;
  };
  Result<Use> use(int32_t id);
  Result<Use> use(std::string_view name);
  std::vector<Use> all();

 private:
  Entry* find(int32_t id);
  static Status check_unused(const Entry& entry);
  std::string known() const;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;  // By id, from OpKind::kUserFirst on.
};

}  // namespace sk

#endif  // SK_LIB_TILE_USER_TABLE_H_
