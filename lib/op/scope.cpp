#include "lib/op/scope.h"

#include "lib/op/names.h"

namespace sk {

bool OpScope::find(std::string_view name, int64_t* value) const {
  const Meaning meaning = meaning_of(op_.schema(), name);
  switch (meaning.kind) {
    case Meaning::kNothing:
      break;
    case Meaning::kField:
      return *value = op_[meaning.field], true;
    case Meaning::kWorld:
      return *value = world_, true;
    case Meaning::kRank:
      return *value = rank_, rank_ != kNoRank;
    case Meaning::kValue:
      return *value = meaning.value, true;
  }
  return false;
}

bool OpScope::find_is_float(std::string_view name, bool* value) const {
  const Schema& schema = op_.schema();
  const OperandSchema* operand = operand_in_expressions(schema, name);
  if (operand == nullptr) return false;
  *value = is_float(op_.type(uint32_t(operand - schema.operands.data())));
  return true;
}

bool flag(const OpDesc& op, std::string_view attribute) {
  return !attribute.empty() && op[op.schema().field(attribute)] != 0;
}

}  // namespace sk
