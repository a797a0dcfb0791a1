#include "lib/op/schema.h"

#include "lib/base/sound.h"
#include "lib/op/ops/all.h"
#include "lib/op/well_formed.h"

namespace sk {
namespace {

#define SK_LIST_SCHEMA(name) &ops::name,
constexpr const Schema* kSchemas[] = {SK_ALL_SCHEMAS(SK_LIST_SCHEMA)};
#undef SK_LIST_SCHEMA

#define SK_CHECK_SCHEMA(name) SK_SOUND(flaw_in(ops::name));
SK_ALL_SCHEMAS(SK_CHECK_SCHEMA)
#undef SK_CHECK_SCHEMA

}  // namespace

std::span<const Schema* const> all_schemas() { return kSchemas; }

const Schema* schema_of(OpKind id) {
  for (const Schema* schema : kSchemas) {
    if (schema->id == id) return schema;
  }
  return nullptr;
}

const Schema* schema_of(std::string_view name) {
  for (const Schema* schema : kSchemas) {
    if (name == schema->name) return schema;
  }
  return nullptr;
}

}  // namespace sk
