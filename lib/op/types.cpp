#include "lib/op/types.h"

#include <optional>

namespace sk {
namespace {

// The one type that a rule stands for; none where it stands for several.
std::optional<DType> type_of(const OpDesc& op, std::string_view rule) {
  const Schema& schema = op.schema();
  const std::string_view summed = summed_in(rule);
  if (const OperandSchema* other = schema.operand(summed.empty() ? rule : summed)) {
    const DType type = op.type(uint32_t(other - schema.operands.data()));
    return summed.empty() ? type : accumulator(type);
  }
  for (int32_t each = SK_F32; each <= SK_I64; ++each) {
    if (rule == dtype_name(DType(each))) return DType(each);
  }
  return std::nullopt;
}

}  // namespace

bool may_have_type(const OpDesc& op, uint32_t operand, DType type) {
  bool may = false;
  for_each_type(op.schema().operands[operand].types, [&](std::string_view rule) {
    may |= rule == "any" || (rule == "float" && is_float(type)) || type_of(op, rule) == type;
  });
  return may;
}

DType first_type(const OpDesc& op, uint32_t operand) {
  const std::string_view rules = op.schema().operands[operand].types;
  return type_of(op, rules.substr(0, rules.find('|'))).value_or(DType::kF32);
}

}  // namespace sk
