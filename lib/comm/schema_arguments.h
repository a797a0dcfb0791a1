// Arguments of any operation, by its schema: what sk_call() was given becomes a Call, or the
// sentence that says which argument was wrong, what it was and what is allowed.
#ifndef SK_LIB_COMM_SCHEMA_ARGUMENTS_H_
#define SK_LIB_COMM_SCHEMA_ARGUMENTS_H_

#include <array>

#include "lib/comm/arguments.h"
#include "lib/op/call_layout.h"

namespace sk {

// Null for a number that is no operation which callers may call; the sentence lists those.
Result<const Schema*> callable(int32_t op);

// The handle that `args` has in a field of packed weights; null where it is not as long.
const void* packed_handle(const void* args, const ArgField& field);

// Packed weights by operand, where the caller gave any.
using PackedOperands = std::array<const Packed*, OpDesc::kOperandsMax>;

// `world` is that of the ranks that take part: of a local operation one.
Result<Call> schema_call(World world, const Schema& schema, const void* args,
                         const PackedOperands& packed, const sk_run_options* options);

}  // namespace sk

#endif  // SK_LIB_COMM_SCHEMA_ARGUMENTS_H_
