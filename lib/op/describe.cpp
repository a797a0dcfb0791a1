// Calls in words, by their schemas.
#include <string>

#include "lib/op/words.h"

namespace sk {
namespace {

// "in.dtype", "op", "count".
std::string value_text(const Schema& schema, const OpDesc& op, std::string_view name) {
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos) {
    const OperandSchema* operand = schema.operand(name.substr(0, dot));
    return operand != nullptr ? dtype_name(DType(word(op, operand->type))) : "?";
  }
  if (const Attribute* attribute = schema.attribute(name)) {
    const int64_t value = word(op, attribute->member);
    return attribute->kind == AttributeKind::kRedOp ? redop_name(RedOp(value))
                                                    : fmt::to_string(value);
  }
  for (const Dimension& dimension : schema.dimensions) {
    if (name == dimension.name) return fmt::to_string(word(op, dimension.member));
  }
  return "?";
}

std::string brief_text(const Schema& schema, const OpDesc& op) {
  std::string text;
  std::string_view rest = schema.brief;
  while (!rest.empty()) {
    const size_t open = rest.find('{'), close = rest.find('}');
    if (open == std::string_view::npos || close == std::string_view::npos) return text.append(rest);
    text.append(rest.substr(0, open));
    text += value_text(schema, op, rest.substr(open + 1, close - open - 1));
    rest.remove_prefix(close + 1);
  }
  return text;
}

}  // namespace

const char* op_kind_name(OpKind kind) {
  const Schema* schema = schema_of(kind);
  return schema != nullptr ? schema->name : "?";
}

const char* operand_name(const OpDesc& op, uint32_t operand) {
  const Schema* schema = schema_of(op.kind);
  return schema != nullptr && operand < schema->operands.size() ? schema->operands[operand].name
                                                                : "?";
}

std::string describe(const OpDesc& op) {
  const Schema* schema = schema_of(op.kind);
  const char* memory = op.symmetric_in ? (op.symmetric_out ? ", symmetric" : ", symmetric in")
                                       : (op.symmetric_out ? ", symmetric out" : "");
  return fmt::format("{}({}{}{})", op_kind_name(op.kind),
                     schema != nullptr ? brief_text(*schema, op) : "?", memory,
                     op.in_place ? ", in place" : "");
}

}  // namespace sk
