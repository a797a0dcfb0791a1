#include <optional>

#include "lib/api/objects.h"
#include "lib/comm/schema_arguments.h"
#include "lib/op/describe_schema.h"
#include "sk/call.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

using PackedUse = decltype(packed_weights)::Use;

// Packed weights that a call names, kept for as long as it lasts.
struct PackedUses {
  std::array<std::optional<PackedUse>, OpDesc::kOperandsMax> uses;
  PackedOperands operands{};

  Status pin(const Schema& schema, const void* args) {
    for (const ArgField& field : arg_layout(schema).fields()) {
      const void* handle = packed_handle(args, field);
      if (handle == nullptr) continue;
      SK_ASSIGN_OR_RETURN(PackedUse use, packed_weights.pin(handle));
      operands[field.index] = &*uses[field.index].emplace(std::move(use));
    }
    return {};
  }
};

Status call_on(Communicator& communicator, const Schema& schema, const void* args,
               const sk_run_options* options) {
  CallWords words;
  const bool known = options == nullptr && words.read(schema, arg_layout(schema), args);
  if (KnownCall* call = known ? communicator.known(words) : nullptr) return communicator.run(*call);
  PackedUses packed;
  SK_RETURN_IF_ERROR(packed.pin(schema, args));
  SK_ASSIGN_OR_RETURN(Call call,
                      schema_call(world_of(communicator), schema, args, packed.operands, options));
  if (known) call.words = &words;
  return communicator.execute(call, {});
}

// Where this rank does alone what it does alone: nobody's turn in a collective is taken for it.
Result<void*> lane_of(const sk_comm* comm) {
  SK_ASSIGN_OR_RETURN(const auto use, comms.pin_here(comm));
  if (use->local == nullptr) return const_cast<void*>(static_cast<const void*>(comm));
  if (use->communicator->device().type != SK_DEVICE_CPU) {
    return error(SK_ERR_UNSUPPORTED, "local operations run on the CPU so far, not on a GPU");
  }
  return use->local->get(use->child.context().log, use->workers);
}

}  // namespace

sk_status sk_call(sk_comm* comm, int32_t op, const void* args,
                  const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const Schema* schema, callable(op));
    if (schema->scope != Scope::kLocal) {
      SK_ASSIGN_OR_RETURN(const auto use, comms.use(comm));
      return call_on(*use->communicator, *schema, args, options);
    }
    SK_ASSIGN_OR_RETURN(const auto held, comms.pin(comm));
    SK_ASSIGN_OR_RETURN(void* lane, lane_of(comm));
    SK_ASSIGN_OR_RETURN(const auto use, comms.use(lane));
    return call_on(*use->communicator, *schema, args, options);
  });
}

sk_status sk_comm_self(sk_context* context, sk_comm** out_comm) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_comm", out_comm));
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    SK_ASSIGN_OR_RETURN(void* lane, (*owner)->self.get((*owner)->log, 0));
    *out_comm = static_cast<sk_comm*>(lane);
    return {};
  });
}

sk_status sk_op_describe(const char* name, char* buffer, size_t capacity,
                         size_t* out_size) noexcept {
  return guard([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const std::string text, describe_schemas(name));
    return copy_out(text, buffer, capacity, out_size);
  });
}
