// The struct of arguments that sk_call() takes, by an operation's schema: struct_size, op, then a
// tensor for each operand (behind one that may come packed, its handle), then the attributes, as C
// lays them out. include/sk/ops.h has them written out.
#ifndef SK_LIB_OP_CALL_LAYOUT_H_
#define SK_LIB_OP_CALL_LAYOUT_H_

#include <cstdint>

#include "lib/op/schema.h"

namespace sk {

struct ArgField {
  enum Kind : uint8_t { kTensor, kPacked, kInt32, kInt64, kDouble };
  Kind kind = kTensor;
  uint8_t index = 0;  // Of the operand or the attribute.
  uint32_t offset = 0;

  constexpr uint32_t bytes() const { return kind == kInt32 ? 4 : 8; }
};

class ArgLayout {
 public:
  static constexpr size_t kFieldsMax = 2 * OpDesc::kOperandsMax + OpDesc::kWordsMax;
  static constexpr uint32_t kOpOffset = 4, kFirstOffset = 8;

  constexpr explicit ArgLayout(const Schema& schema) {
    for (size_t i = 0; i < schema.operands.size(); ++i) {
      add(ArgField::kTensor, i);
      if (schema.operands[i].may_be(Storage::kPackedB)) add(ArgField::kPacked, i);
    }
    for (size_t i = 0; i < schema.attributes.size(); ++i) {
      add(kind_of(schema.attributes[i].kind), i);
    }
    size_ = (size_ + 7) / 8 * 8;
  }

  constexpr uint32_t size() const { return size_; }
  constexpr const Few<ArgField, kFieldsMax>& fields() const { return fields_; }

 private:
  static constexpr ArgField::Kind kind_of(AttributeKind kind) {
    switch (kind) {
      case AttributeKind::kInt:
        return ArgField::kInt64;
      case AttributeKind::kFloat:
        return ArgField::kDouble;
      case AttributeKind::kBool:
      case AttributeKind::kRank:
      case AttributeKind::kRedOp:
        break;
    }
    return ArgField::kInt32;
  }
  constexpr void add(ArgField::Kind kind, size_t index) {
    ArgField field{kind, uint8_t(index), 0};
    field.offset = (size_ + field.bytes() - 1) / field.bytes() * field.bytes();
    size_ = field.offset + field.bytes();
    fields_.push_back(field);
  }

  uint32_t size_ = kFirstOffset;
  Few<ArgField, kFieldsMax> fields_;
};

// `schema` is one of all_schemas().
const ArgLayout& arg_layout(const Schema& schema);

}  // namespace sk

#endif  // SK_LIB_OP_CALL_LAYOUT_H_
