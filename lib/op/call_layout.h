// The struct of arguments that sk_call() takes, by an operation's schema: struct_size, op, where
// there are lists how long they are, then a tensor or a list for each operand that has memory of
// its own (behind one that may come packed, its handle), then the attributes, as C lays them out.
// include/sk/ops.h has them written out.
#ifndef SK_LIB_OP_CALL_LAYOUT_H_
#define SK_LIB_OP_CALL_LAYOUT_H_

#include <cstdint>

#include "lib/op/schema.h"

namespace sk {

struct ArgField {
  enum Kind : uint8_t { kTensor, kPacked, kList, kLength, kInt32, kInt64, kDouble };
  Kind kind = kTensor;
  uint8_t index = 0;  // Of the operand or the attribute; of kLength that of the first list.
  uint32_t offset = 0;

  // Whether `index` is an attribute's.
  constexpr bool is_number() const { return kind >= kInt32; }
  constexpr uint32_t bytes() const { return kind == kInt32 ? 4 : 8; }
};

class ArgLayout {
 public:
  static constexpr size_t kFieldsMax = 2 * OpDesc::kOperandsMax + OpDesc::kWordsMax + 1;
  static constexpr uint32_t kOpOffset = 4, kFirstOffset = 8;

  constexpr explicit ArgLayout(const Schema& schema) {
    for (size_t i = 0; i < schema.operands.size(); ++i) {
      const bool first = schema.operands[i].list && length_ == 0;
      if (first) length_ = add(ArgField::kLength, i);
      if (schema.operands[i].only_in_place) continue;
      add(schema.operands[i].list ? ArgField::kList : ArgField::kTensor, i);
      if (schema.operands[i].may_be(Storage::kPackedB)) add(ArgField::kPacked, i);
    }
    for (size_t i = 0; i < schema.attributes.size(); ++i) {
      add(kind_of(schema.attributes[i].kind), i);
    }
    size_ = (size_ + 7) / 8 * 8;
  }

  constexpr uint32_t size() const { return size_; }
  // Where the length of lists stands; 0: there are none.
  constexpr uint32_t length_offset() const { return length_; }
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
  constexpr uint32_t add(ArgField::Kind kind, size_t index) {
    ArgField field{kind, uint8_t(index), 0};
    field.offset = (size_ + field.bytes() - 1) / field.bytes() * field.bytes();
    size_ = field.offset + field.bytes();
    fields_.push_back(field);
    return field.offset;
  }

  uint32_t size_ = kFirstOffset, length_ = 0;
  Few<ArgField, kFieldsMax> fields_;
};

// `schema` is one of all_schemas().
const ArgLayout& arg_layout(const Schema& schema);

}  // namespace sk

#endif  // SK_LIB_OP_CALL_LAYOUT_H_
