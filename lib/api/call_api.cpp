#include "lib/api/calling.h"
#include "lib/comm/limits.h"
#include "lib/op/describe_schema.h"
#include "sk/call.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

Status call_on(Communicator& communicator, const Schema& schema, const ArgLayout& layout,
               const void* args, const sk_run_options* options) {
  CallWords words;
  const bool known = options == nullptr && words.read(schema, layout, args);
  KnownCall* const before = known ? communicator.known(words) : nullptr;
  if (before != nullptr && !words.has_packed()) [[likely]]
    return communicator.run(*before);
  PackedUses packed;
  SK_RETURN_IF_ERROR(packed.pin(PackedUses::named(layout, args)));
  if (before != nullptr) return communicator.run(*before);
  SK_ASSIGN_OR_RETURN(
      Call call, schema_call(world_of(communicator), schema, args, packed.operands(), options));
  if (known) call.words = &words;
  return communicator.execute(call, {});
}

Status call_alone(const sk_comm* comm, const Operation& operation, const void* args,
                  const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(const auto held, comms.pin_here(comm));
  SK_ASSIGN_OR_RETURN(void* lane, lane_of(comm, *held));
  SK_ASSIGN_OR_RETURN(const auto use, use_comm(lane, options));
  std::optional<SerialTurn> turn;
  if (operation.tile.has_value()) {
    SK_ASSIGN_OR_RETURN(SerialTurn taken, serial_turn(**operation.tile, *use, options));
    turn.emplace(std::move(taken));
  }
  SK_RETURN_IF_ERROR(settle_options(*use, options));
  return call_on(*use->communicator, *operation.schema, *operation.layout, args, options);
}

}  // namespace

sk_status sk_call(sk_comm* comm, int32_t op, const void* args,
                  const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const Operation operation, operation_of(comm, op));
    if (operation.schema->scope != Scope::kLocal) {
      SK_ASSIGN_OR_RETURN(const auto use, use_comm(comm, options));
      return call_on(*use->communicator, *operation.schema, *operation.layout, args, options);
    }
    return call_alone(comm, operation, args, options);
  });
}

sk_status sk_comm_self(sk_context* context, sk_comm** out_comm) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_comm", out_comm));
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    SK_ASSIGN_OR_RETURN(const uint32_t workers, workers_from_environment());
    SK_ASSIGN_OR_RETURN(void* lane, (*owner)->self.get(**owner, workers, kTurnNs));
    *out_comm = static_cast<sk_comm*>(lane);
    return {};
  });
}

sk_status sk_context_set_interrupted(sk_context* context, sk_interrupted_fn interrupted,
                                     void* user) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.use(context));
    // One that comes about meanwhile asks what is set here, or has begun to use that of before.
    if ((*owner)->children.load() == 0 && (*owner)->interruption.set({interrupted, user}))
      return {};
    return error(SK_ERR_BUSY,
                 "interrupted must be set before the context's communicators, sk_comm_self() among "
                 "them, and while no sk_tile_check() runs");
  });
}

sk_status sk_op_describe(const char* name, char* buffer, size_t capacity,
                         size_t* out_size) noexcept {
  return guard([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const std::string text, describe_schemas(name));
    return copy_out(text, buffer, capacity, out_size);
  });
}
