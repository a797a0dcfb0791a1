#include "lib/api/calling.h"

#include "lib/comm/checks.h"

namespace sk::api {

PackedUses::Handles PackedUses::named(const ArgLayout& layout, const void* args) {
  Handles handles{};
  for (const ArgField& field : layout.fields()) {
    if (const void* handle = packed_handle(args, field)) handles[field.index] = handle;
  }
  return handles;
}

Status PackedUses::pin(const Handles& handles) {
  for (size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == nullptr) continue;
    SK_ASSIGN_OR_RETURN(auto use, packed_weights.pin(handles[i]));
    operands_[i] = &*uses_[i].emplace(std::move(use));
  }
  return {};
}

Result<Turn> turn_of(const sk_run_options& options) {
  SK_ASSIGN_OR_RETURN(const sk_run_options read, read_struct("sk_run_options", &options));
  SK_RETURN_IF_ERROR(check::timeout_ms("options.timeout_ms", read.timeout_ms));
  return Turn{
      .limit_ns = read.timeout_ms * 1'000'000, .waiting = read.waiting, .user = read.waiting_user};
}

Result<Operation> operation_of(const sk_comm* comm, int32_t op) {
  if (op < int32_t(OpKind::kUserFirst)) {
    SK_ASSIGN_OR_RETURN(const Schema* schema, callable(op));
    return Operation{schema, &arg_layout(*schema)};
  }
  SK_ASSIGN_OR_RETURN(auto held, comms.pin(comm));
  SK_ASSIGN_OR_RETURN(TileSet::Use tile, held->tiles->use(op));
  const UserTile& is = *tile;
  return Operation{&is.schema(), &is.layout(), std::move(held), std::move(tile)};
}

Result<SerialTurn> serial_turn(const UserTile& tile, const Comm& lane,
                               const sk_run_options* options) {
  Turn turn;
  if (options != nullptr) {
    SK_ASSIGN_OR_RETURN(turn, turn_of(*options));
  }
  turn.interruption = lane.interruption.get();
  return SerialTurn::take(tile, turn, lane.timeout_ns);
}

Status settle_options(const Comm& lane, const sk_run_options*& options) {
  if (options == nullptr) return {};
  SK_RETURN_IF_ERROR(std::move(check::run_options(lane.communicator->device(), options).status()));
  options = nullptr;
  return {};
}

Result<void*> lane_of(const sk_comm* comm, Comm& its) {
  if (its.local == nullptr) return const_cast<void*>(static_cast<const void*>(comm));
  if (its.communicator->device().type != SK_DEVICE_CPU) {
    return error(SK_ERR_UNSUPPORTED, "local operations run on the CPU so far, not on a GPU");
  }
  return its.local->get(its.child.context(), its.workers, its.timeout_ns);
}

}  // namespace sk::api
