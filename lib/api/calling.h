// What calls by schema share: their packed weights, and whose turn a local one takes.
#ifndef SK_LIB_API_CALLING_H_
#define SK_LIB_API_CALLING_H_

#include <array>
#include <optional>

#include "lib/api/objects.h"
#include "lib/api/serial_turns.h"
#include "lib/comm/schema_arguments.h"

namespace sk::api {

// Packed weights that a call names, kept for as long as it lasts.
class PackedUses {
 public:
  // By operand; null where there are none.
  using Handles = std::array<const void*, OpDesc::kOperandsMax>;

  static Handles named(const ArgLayout& layout, const void* args);
  Status pin(const Handles& handles);
  const PackedOperands& operands() const { return operands_; }

 private:
  std::array<std::optional<decltype(packed_weights)::Use>, OpDesc::kOperandsMax> uses_;
  PackedOperands operands_{};
};

// One that callers may call on `comm`: ours, or a user's of its context, which stays for as long as
// this does.
struct Operation {
  const Schema* schema;
  const ArgLayout* layout;
  std::optional<decltype(comms)::Use> held{};  // Whose tiles they are.
  std::optional<TileSet::Use> tile{};
};
Result<Operation> operation_of(const sk_comm* comm, int32_t op);

// The turn at `tile` of a call that has the turn of `lane`, waited for as `options` say and else as
// long as for that.
Result<SerialTurn> serial_turn(const UserTile& tile, const Comm& lane,
                               const sk_run_options* options);

// Behind the turn of `lane`, and the tile's, a local operation waits for nobody: of its options
// nothing is left to be said, once they are seen to be right.
Status settle_options(const Comm& lane, const sk_run_options*& options);

// Where this rank does alone what it does alone: nobody's turn in a collective is taken for it.
// `its` is `comm`, pinned.
Result<void*> lane_of(const sk_comm* comm, Comm& its);

}  // namespace sk::api

#endif  // SK_LIB_API_CALLING_H_
