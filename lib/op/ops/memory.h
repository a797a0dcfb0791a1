// Collective calls that move nothing: they enter by a name, so that a mismatch can say it.
#ifndef SK_LIB_OP_OPS_MEMORY_H_
#define SK_LIB_OP_OPS_MEMORY_H_

#include "lib/op/schema.h"

namespace sk {
namespace ops {
namespace memory {

inline constexpr Dimension kBytes[] = {{"bytes"}};

constexpr Schema call(OpKind id, const char* name) {
  return {.id = id, .name = name, .brief = "{bytes} bytes", .dimensions = kBytes};
}

}  // namespace memory

inline constexpr Schema kAlloc = memory::call(OpKind::kAlloc, "alloc");
inline constexpr Schema kFree = memory::call(OpKind::kFree, "free");
inline constexpr Schema kRegister = memory::call(OpKind::kRegister, "register");
inline constexpr Schema kDeregister = memory::call(OpKind::kDeregister, "deregister");
inline constexpr Field kBytes = field_of(kAlloc, "bytes");

}  // namespace ops

// Of what callers call by its own functions alone, and has no plan that they could ask for.
constexpr bool is_of_memory(const Schema& schema) {
  return schema.id >= OpKind::kAlloc && schema.id <= OpKind::kDeregister;
}

// `kind` is one of these.
inline OpDesc memory_call(OpKind kind, uint64_t bytes) {
  OpDesc op(*schema_of(kind));
  op.set(ops::kBytes, int64_t(bytes));
  return op;
}

}  // namespace sk

#endif  // SK_LIB_OP_OPS_MEMORY_H_
