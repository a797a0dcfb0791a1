#include "lib/op/op.h"

#include <algorithm>

#include "lib/base/hash.h"
#include "lib/op/ops/collectives.h"

namespace sk {
namespace {

// What `schema` uses of its words.
std::array<uint64_t, OpDesc::kWordsMax> used_bits(const Schema& schema) {
  std::array<uint64_t, OpDesc::kWordsMax> used{};
  const auto use = [&](Field field) { used[field.word] |= field.mask(); };
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    use(OpDesc::type_field(i));
    use(OpDesc::storage_field(i));
    if (schema.operands[i].reached) use(OpDesc::symmetric_field(i));
    if (schema.operands[i].alias[0] != '\0') use(OpDesc::aliased_field(i));
    if (schema.operands[i].optional) use(OpDesc::absent_field(i));
    if (const Field stride = schema.stride_field(i)) use(stride);
  }
  for (size_t i = 0; i < schema.dimensions.size(); ++i) use(schema.dimension_field(i));
  for (size_t i = 0; i < schema.attributes.size(); ++i) use(schema.attribute_field(i));
  return used;
}

}  // namespace

OpDesc::OpDesc() : OpDesc(ops::kBarrier) {}

OpDesc::OpDesc(const Schema& schema) : schema_(&schema) {
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    set(type_field(i), int64_t(DType::kF32));
    set(storage_field(i), int64_t(schema.operands[i].storage));
    set(aliased_field(i), schema.operands[i].only_in_place);
  }
  for (size_t i = 0; i < schema.attributes.size(); ++i) {
    if (schema.attributes[i].kind != AttributeKind::kRedOp) continue;
    set(schema.attribute_field(i), int64_t(RedOp::kSum));
  }
}

OpKind OpDesc::kind() const { return schema_->id; }

bool OpDesc::any(Field (*field)(uint32_t)) const {
  for (uint32_t i = 0; i < kOperandsMax; ++i) {
    if ((*this)[field(i)] != 0) return true;
  }
  return false;
}
bool OpDesc::in_place() const { return any(aliased_field); }
bool OpDesc::any_symmetric() const { return any(symmetric_field); }

uint64_t OpDesc::hash() const {
  uint64_t hash = hash_mix(0, schema_->digest != 0 ? schema_->digest : uint64_t(kind()));
  for (uint32_t i = 0; i < schema_->word_count(); ++i) hash = hash_mix(hash, words_[i]);
  return hash == 0 ? 1 : hash;
}

bool OpDesc::has_foreign_bits() const {
  const std::array<uint64_t, kWordsMax> used = used_bits(*schema_);
  return !std::equal(words_.begin(), words_.end(), used.begin(),
                     [](uint64_t word, uint64_t mask) { return (word & ~mask) == 0; });
}

bool has_operand(const OpDesc& op, uint32_t operand, uint32_t rank) {
  const Schema& schema = op.schema();
  if (operand >= schema.operands.size() || op.absent(operand)) return false;
  const char* only_on = schema.operands[operand].only_on;
  return only_on[0] == '\0' || op[schema.field(only_on)] == int64_t(rank);
}

bool is_pair(const OpDesc& op) { return op.schema().scope == Scope::kPair; }
bool is_local(const OpDesc& op) { return op.schema().scope == Scope::kLocal; }

std::array<uint32_t, 2> ends_of(const OpDesc& op) {
  const Schema& schema = op.schema();
  return {uint32_t(op[schema.attribute_field(0)]), uint32_t(op[schema.attribute_field(1)])};
}

}  // namespace sk
