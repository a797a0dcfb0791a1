#include "lib/op/judge.h"

#include <array>
#include <string_view>

#include "lib/op/expr.h"
#include "lib/op/words.h"

namespace sk {
namespace {

class Judge {
 public:
  Judge(const Schema& schema, const OpDesc& op, uint32_t world_size)
      : schema_(schema), op_(op), world_size_(world_size), scope_(schema, op, world_size, 0) {}

  std::string mistake() const {
    std::string text;
    for (const auto part : {&Judge::sizes, &Judge::attributes, &Judge::types, &Judge::layouts,
                            &Judge::place, &Judge::conditions, &Judge::foreign_words}) {
      text = (this->*part)();
      if (!text.empty()) break;
    }
    return text;
  }

 private:
  std::string sizes() const {
    std::string text;
    const auto check = [&](Member member) {
      const int64_t value = word_or_0(op_, member);
      if (value >= 0 && value <= kElementsMax) return;
      text = fmt::format("the op has a size of {}, allowed are 0 to 2^46", value);
    };
    for (const Dimension& dimension : schema_.dimensions) check(dimension.member);
    for (const OperandSchema& operand : schema_.operands) check(operand.stride);
    return text;
  }
  std::string attributes() const {
    for (const Attribute& attribute : schema_.attributes) {
      const int64_t value = word(op_, attribute.member);
      if (attribute.kind != AttributeKind::kRank || (value >= 0 && value < world_size_)) continue;
      return fmt::format("{} in a world of {} has {} {}", describe(op_), world_size_,
                         attribute.name, value);
    }
    return "";
  }
  DType type_of(const OperandSchema& operand) const { return DType(word(op_, operand.type)); }
  bool may_have(const OperandSchema& operand, DType type) const {
    std::string_view rest = operand.types;
    while (!rest.empty()) {
      const std::string_view rule = rest.substr(0, rest.find('|'));
      rest.remove_prefix(std::min(rest.size(), rule.size() + 1));
      const OperandSchema* other = schema_.operand(rule);
      if (rule == "any" || (rule == "float" && is_float(type)) || rule == dtype_name(type) ||
          (other != nullptr && type_of(*other) == type)) {
        return true;
      }
    }
    return false;
  }
  std::string types() const {
    for (const OperandSchema& operand : schema_.operands) {
      if (may_have(operand, type_of(operand))) continue;
      return fmt::format("{} has a type that its {} may not have", describe(op_), operand.name);
    }
    return "";
  }
  bool flag(std::string_view attribute) const {
    return word(op_, schema_.attribute(attribute)->member) != 0;
  }
  std::string layouts() const {
    for (const OperandSchema& operand : schema_.operands) {
      const int64_t stride = word_or_0(op_, operand.stride);
      if (operand.plain_if[0] != '\0' && !flag(operand.plain_if)) {
        if (stride == 0 && !flag(operand.turned_by)) continue;
        return fmt::format("{}: {} comes packed, it has neither a stride nor a transpose",
                           describe(op_), operand.name);
      }
      if (operand.stride == Member::kNone || stride >= columns_of(operand)) continue;
      return fmt::format("{}: the stride of {}, {}, is shorter than its rows of {}", describe(op_),
                         operand.name, stride, columns_of(operand));
    }
    return "";
  }
  int64_t columns_of(const OperandSchema& operand) const {
    std::array<int64_t, 2> axes{};
    size_t count = 0;
    for_each_axis(operand.shape,
                  [&](std::string_view axis) { axes[count++] = evaluate(axis, scope_).value; });
    return operand.turned_by[0] != '\0' && flag(operand.turned_by) ? axes[0] : axes[count - 1];
  }
  std::string place() const {
    if (!op_.in_place || schema_.has(Member::kInPlace)) return "";
    return fmt::format("{} is never in place", schema_.name);
  }
  std::string conditions() const {
    for (const Condition& condition : schema_.conditions) {
      const ExprValue holds = evaluate(condition.holds, scope_);
      if (holds.ok() && holds.value != 0) continue;
      return fmt::format("{}: {}", describe(op_), condition.sentence);
    }
    return "";
  }
  // Words of other operations have the value that a new description gives them.
  std::string foreign_words() const {
    OpDesc none;
    if (!schema_.has(Member::kOutDType)) none.out_dtype = op_.dtype;
    for (uint8_t i = 1; i < kMemberCount; ++i) {
      if (schema_.has(Member(i)) || word(op_, Member(i)) == word(none, Member(i))) continue;
      return fmt::format("{} has words of another operation", describe(op_));
    }
    return "";
  }

  const Schema& schema_;
  const OpDesc& op_;
  int64_t world_size_;
  OpScope scope_;
};

}  // namespace

std::string mistake_in(const OpDesc& op, uint32_t world_size) {
  const Schema* schema = schema_of(op.kind);
  if (schema == nullptr || !is_dtype(int32_t(op.dtype)) || !is_dtype(int32_t(op.out_dtype)) ||
      !is_redop(int32_t(op.redop))) {
    return fmt::format("unknown operation {}, dtype {}, out_dtype {} or redop {}", int(op.kind),
                       int(op.dtype), int(op.out_dtype), int(op.redop));
  }
  return Judge(*schema, op, world_size).mistake();
}

}  // namespace sk
