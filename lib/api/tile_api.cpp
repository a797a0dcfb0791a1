#include "lib/api/objects.h"
#include "lib/api/serial_turns.h"
#include "lib/comm/schema_arguments.h"
#include "lib/comm/tile_arguments.h"
#include "lib/comm/tile_check.h"
#include "lib/tile/describe_user.h"
#include "sk/tile.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

sk_status sk_tile_register(sk_context* context, const sk_tile_desc* desc,
                           int32_t* out_op) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_op", out_op));
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    SK_ASSIGN_OR_RETURN(TileArguments read, tile_arguments(desc));
    SK_ASSIGN_OR_RETURN(const OpKind op,
                        (*owner)->tiles->add(std::move(read.text), read.function, read.replaces));
    *out_op = int32_t(op);
    return {};
  });
}

sk_status sk_tile_unregister(sk_context* context, int32_t op) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    return (*owner)->tiles->remove(op);
  });
}

sk_status sk_tile_check(sk_context* context, int32_t op, const void* args,
                        const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    SK_ASSIGN_OR_RETURN(const TileSet::Use tile, (*owner)->tiles->use(op));
    constexpr World kAlone{.rank = 0, .size = 1, .device = {}};
    SK_ASSIGN_OR_RETURN(const Call call, schema_call(kAlone, tile->schema(), args, {}, options));
    const auto interruption = (*owner)->interruption.use();
    // Else the child might come about while another thread is inside of the function, whose lock it
    // would find held for ever.
    const Turn turn{.limit_ns = call.timeout_ns, .interruption = interruption.get()};
    SK_ASSIGN_OR_RETURN(const SerialTurn alone, SerialTurn::take(*tile, turn, kTileCheckNs));
    return check_tile(*tile, call, interruption.get());
  });
}

sk_status sk_tile_describe(sk_context* context, const char* name, char* buffer, size_t capacity,
                           size_t* out_size) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
    SK_ASSIGN_OR_RETURN(const std::string text, describe_tiles(*(*owner)->tiles, name));
    return copy_out(text, buffer, capacity, out_size);
  });
}
