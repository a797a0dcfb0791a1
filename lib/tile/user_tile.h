// A user's tile as records: an operation's schema and a tile's signature, made of what the user
// said when it was registered, so that whatever walks the library's own walks these.
#ifndef SK_LIB_TILE_USER_TILE_H_
#define SK_LIB_TILE_USER_TILE_H_

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/op/call_layout.h"
#include "lib/tile/signature_effect.h"
#include "lib/tile/tile_op.h"
#include "lib/tile/user_effect.h"

namespace sk {

struct TileFunction {
  sk_tile_fn call = nullptr;
  void* user = nullptr;
  bool operator==(const TileFunction&) const = default;
};

class UserTile : public TileOp {
 public:
  // Else a sentence. `number` is its process's, `id` its context's.
  static Result<std::unique_ptr<UserTile>> make(TileText text, TileFunction function, OpKind id,
                                                TaskOp number);
  UserTile(const UserTile&) = delete;
  UserTile& operator=(const UserTile&) = delete;

  const TileText& text() const { return text_; }
  const TileFunction& function() const { return function_; }
  const Schema& schema() const { return schema_; }
  const ArgLayout& layout() const { return layout_; }
  const effect::Tile& effect() const { return effect_->tile(); }
  const UserEffect& places() const { return places_; }

  // Where a task's parameters are: a type for each region, `whole` for each iterator, and of those
  // that are cut what is first and how many; then the user's.
  size_t type_parameter(size_t region) const { return region; }
  size_t whole_parameter(size_t iterator) const { return ranges_at_[iterator]; }
  size_t first_parameter(size_t iterator) const { return ranges_at_[iterator] + 1; }
  size_t count_parameter(size_t iterator) const { return ranges_at_[iterator] + 2; }
  size_t number_parameter(size_t number) const { return numbers_at_ + number; }
  size_t parameter_count() const { return numbers_at_ + text_.numbers.size(); }

  // Whether the function says that it is done.
  bool run(const TileArgs& args) const;

 private:
  UserTile(TileText text, TileFunction function) : text_(std::move(text)), function_(function) {}
  void describe(OpKind id, TaskOp number);
  void sign();
  const char* free_dimension() const;
  const char* keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }
  sk_tile_view view(const TileArgs& args, size_t region) const;
  // Elements of a region along an axis.
  int64_t extent(const TileArgs& args, size_t region, size_t axis) const;

  const TileText text_;
  const TileFunction function_;
  UserEffect places_;
  std::deque<std::string> texts_;  // That the records point to.

  std::vector<Dimension> dimensions_;
  std::vector<OperandSchema> operands_;
  std::vector<Attribute> attributes_;
  Steps meaning_;
  Schema schema_{.id = OpKind::kUserFirst, .name = "", .brief = ""};
  ArgLayout layout_{schema_};

  std::vector<Parameter> parameters_;
  std::vector<size_t> ranges_at_;
  size_t numbers_at_ = 0;
  std::vector<RegionRole> roles_;
  std::vector<effect::RangeRecord> ranges_;
  Form form_{};
  std::unique_ptr<const SignatureEffect> effect_;
  // Of a function that is not to be called twice at one time. Those who come here are of one call:
  // calls come in turns.
  mutable std::mutex serial_;
};

}  // namespace sk

#endif  // SK_LIB_TILE_USER_TILE_H_
