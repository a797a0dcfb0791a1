#include "lib/op/schema.h"

#include <algorithm>

#include "lib/op/ops/all.h"

namespace sk {
namespace {

#define SK_LIST_SCHEMA(name) &ops::name,
constexpr const Schema* kSchemas[] = {SK_ALL_SCHEMAS(SK_LIST_SCHEMA)};
#undef SK_LIST_SCHEMA

template <typename T>
const T* named(std::span<const T> all, std::string_view name) {
  for (const T& each : all) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

}  // namespace

const OperandSchema* Schema::operand(std::string_view operand_name) const {
  return named(operands, operand_name);
}

const Attribute* Schema::attribute(std::string_view attribute_name) const {
  return named(attributes, attribute_name);
}

bool Schema::has(Member member) const {
  const auto is_it = [&](const auto& each) { return each.member == member; };
  const auto uses = [&](const OperandSchema& each) {
    return each.type == member || each.stride == member || each.symmetric == member ||
           (each.alias[0] != '\0' && member == Member::kInPlace);
  };
  return std::any_of(dimensions.begin(), dimensions.end(), is_it) ||
         std::any_of(attributes.begin(), attributes.end(), is_it) ||
         std::any_of(operands.begin(), operands.end(), uses);
}

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
