#include <algorithm>
#include <functional>
#include <optional>

#include "lib/api/calling.h"
#include "lib/op/mismatch.h"
#include "sk/call.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

// A local operation's handle keeps the lane's, and whoever has that may go.
Result<void*> place_of(sk_comm* comm, const Schema& schema) {
  if (schema.scope != Scope::kLocal) return static_cast<void*>(comm);
  SK_ASSIGN_OR_RETURN(const auto held, comms.pin_here(comm));
  return lane_of(comm, *held);
}

Result<std::unique_ptr<OpHandle>> make(void* place, const Operation& operation, const void* args) {
  const Schema& schema = *operation.schema;
  const ArgLayout& layout = *operation.layout;
  auto made =
      std::make_unique<OpHandle>(OpHandle{.comm = place, .schema = &schema, .layout = &layout});
  SK_ASSIGN_OR_RETURN(const auto use, comms.use(place));
  made->packed = PackedUses::named(layout, args);
  PackedUses packed;
  SK_RETURN_IF_ERROR(packed.pin(made->packed));
  SK_ASSIGN_OR_RETURN(made->call, schema_call(world_of(*use->communicator), schema, args,
                                              packed.operands(), nullptr));
  if (!made->words.read(schema, layout, args)) made->words = CallWords();
  SK_RETURN_IF_ERROR(use->communicator->prepare(made->call, made->pinned));
  return made;
}

Status check_same(const OpDesc& given, const OpDesc& made) {
  if (given == made) return {};
  const std::string how = fields_that_differ(given, made);
  return error(SK_ERR_INVALID_ARGUMENT,
               "args are of {}, and this operation was made for {}: {}{}only addresses and values "
               "of a run may differ",
               describe(given), describe(made), how, how.empty() ? "" : "; ");
}

// With other arguments than the last ones: what they are of must be what the handle was made for.
Status take_arguments(OpHandle& op, World world, const void* args) {
  CallWords words;
  const bool worded = words.read(*op.schema, *op.layout, args);
  if (worded && std::ranges::equal(words.words(), op.words.words())) return {};
  const PackedUses::Handles packed = PackedUses::named(*op.layout, args);
  PackedUses uses;
  SK_RETURN_IF_ERROR(uses.pin(packed));
  SK_ASSIGN_OR_RETURN(const Call call,
                      schema_call(world, *op.schema, args, uses.operands(), nullptr));
  SK_RETURN_IF_ERROR(check_same(call.op, op.call.op));
  op.call = call;
  op.packed = packed;
  op.words = worded ? words : CallWords();
  op.pinned.places = 0;
  return {};
}

Status run(OpHandle& op, Communicator& communicator, const void* args,
           const sk_run_options* options) {
  if (args != nullptr) SK_RETURN_IF_ERROR(take_arguments(op, world_of(communicator), args));
  std::optional<PackedUses> kept;  // Few operations have any: eight of nothing take their time.
  if (std::ranges::any_of(op.packed, std::identity())) {
    SK_RETURN_IF_ERROR(kept.emplace().pin(op.packed));
  }
  if (options == nullptr && communicator.knows(op.pinned)) [[likely]]
    return communicator.run(op.pinned.call);
  Call call = op.call;
  SK_RETURN_IF_ERROR(take_options(world_of(communicator), options, call));
  Status status = communicator.execute(call, {}, &op.pinned);
  if (options != nullptr || !status.ok()) op.pinned.places = 0;  // They are of this run alone.
  return status;
}

}  // namespace

sk_status sk_op_create(sk_comm* comm, int32_t op, const void* args, sk_op** out_op) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_op", out_op));
    SK_ASSIGN_OR_RETURN(const Operation operation, operation_of(comm, op));
    SK_ASSIGN_OR_RETURN(void* place, place_of(comm, *operation.schema));
    SK_ASSIGN_OR_RETURN(auto made, make(place, operation, args));
    SK_ASSIGN_OR_RETURN(void* handle, operations.add(std::move(made), /*turn_ns=*/0, place));
    *out_op = static_cast<sk_op*>(handle);
    return {};
  });
}

sk_status sk_op_run(sk_op* op, const void* args, const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, use_for_comm(operations, op, options));
    const auto& [comm, mine] = use;
    std::optional<TileSet::Use> tile;  // A user's, which may have been taken away.
    std::optional<SerialTurn> turn;
    if (mine->schema->id >= OpKind::kUserFirst) {
      SK_ASSIGN_OR_RETURN(auto found, comm->tiles->use(int32_t(mine->schema->id)));
      tile.emplace(std::move(found));
      SK_ASSIGN_OR_RETURN(SerialTurn taken, serial_turn(**tile, *comm, options));
      turn.emplace(std::move(taken));
    }
    if (mine->schema->scope == Scope::kLocal) SK_RETURN_IF_ERROR(settle_options(*comm, options));
    return run(*mine, *comm->communicator, args, options);
  });
}

sk_status sk_op_free(sk_op* op) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_outside_tiles());
    return std::move(operations.remove_from(comms, op).status());
  });
}
