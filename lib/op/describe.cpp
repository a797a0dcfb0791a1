// Calls in words, by their schemas.
#include <string>

#include "lib/op/schema.h"
#include "lib/op/values.h"

namespace sk {
namespace {

// "in.dtype", "op", "count".
std::string named_text(const OpDesc& op, std::string_view name) {
  const Schema& schema = op.schema();
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos) {
    const OperandSchema* operand = schema.operand(name.substr(0, dot));
    return dtype_name(op.type(uint32_t(operand - schema.operands.data())));
  }
  const int64_t value = op[schema.field(name)];
  const Attribute* attribute = schema.attribute(name);
  return attribute != nullptr ? value_text(*attribute, value) : fmt::to_string(value);
}

std::string brief_text(const OpDesc& op) {
  std::string text;
  std::string_view rest = op.schema().brief;
  while (!rest.empty()) {
    const size_t open = rest.find('{');
    if (open == std::string_view::npos) return text.append(rest);
    const size_t close = rest.find('}', open);  // flaw_in() has seen it.
    text.append(rest.substr(0, open));
    text += named_text(op, rest.substr(open + 1, close - open - 1));
    rest.remove_prefix(close + 1);
  }
  return text;
}

// ", symmetric" where all of several operands that peers could reach are, else ", symmetric in".
std::string symmetric_text(const OpDesc& op) {
  const Schema& schema = op.schema();
  std::string names;
  size_t reached = 0;
  bool all = true;
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (!schema.operands[i].reached) continue;
    if (op.symmetric(i)) names += fmt::format(" {}", schema.operands[i].name);
    all &= op.symmetric(i);
    ++reached;
  }
  return names.empty() ? "" : ", symmetric" + (all && reached > 1 ? "" : names);
}

}  // namespace

const char* op_kind_name(OpKind kind) {
  const Schema* schema = schema_of(kind);
  return schema != nullptr ? schema->name : "?";
}

const char* operand_name(const OpDesc& op, uint32_t operand) {
  return operand < op.schema().operands.size() ? op.schema().operands[operand].name : "?";
}

std::string describe(const OpDesc& op) {
  return fmt::format("{}({}{}{})", op.schema().name, brief_text(op), symmetric_text(op),
                     op.in_place() ? ", in place" : "");
}

}  // namespace sk
