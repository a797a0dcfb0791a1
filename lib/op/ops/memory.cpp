// Collective calls that move nothing: they enter by a name, so that a mismatch can say it.
#include "lib/op/ops/all.h"

namespace sk::ops {
namespace {

constexpr Dimension kBytes[] = {{"bytes", Member::kCount}};

constexpr Schema call(OpKind id, const char* name) {
  return {.id = id, .name = name, .brief = "{bytes} bytes", .dimensions = kBytes};
}

}  // namespace

constexpr Schema kAlloc = call(OpKind::kAlloc, "alloc");
constexpr Schema kFree = call(OpKind::kFree, "free");
constexpr Schema kRegister = call(OpKind::kRegister, "register");
constexpr Schema kDeregister = call(OpKind::kDeregister, "deregister");

}  // namespace sk::ops
