#include "lib/op/judge.h"

#include <string_view>

#include "lib/op/expr.h"
#include "lib/op/scope.h"
#include "lib/op/stored.h"
#include "lib/op/types.h"
#include "lib/op/values.h"

namespace sk {
namespace {

const char* why(const ExprValue& failed) {
  switch (failed.error) {
    case ExprError::kDivision:
      return "divides by 0";
    case ExprError::kOverflow:
      return "goes beyond 64 bits";
    case ExprError::kNone:
    case ExprError::kSyntax:
    case ExprError::kUnknownName:
      break;
  }
  return "is none";
}

class Judge {
 public:
  Judge(const OpDesc& op, uint32_t world_size)
      : op_(op), schema_(op.schema()), world_size_(world_size) {}

  std::string mistake() const {
    std::string text;
    for (const auto part : {&Judge::foreign_bits, &Judge::values, &Judge::types, &Judge::sizes,
                            &Judge::layouts, &Judge::arrays, &Judge::conditions}) {
      text = (this->*part)();
      if (!text.empty()) break;
    }
    return text;
  }

 private:
  std::string foreign_bits() const {
    if (!op_.has_foreign_bits()) return "";
    return fmt::format("{} has words of another operation", schema_.name);
  }
  // Enumerators and ranks that there are.
  std::string values() const {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (!is_dtype(int32_t(op_.type(i)))) {
        return fmt::format("{}: {} has the unknown type {}", schema_.name, schema_.operands[i].name,
                           int(op_.type(i)));
      }
      if (!schema_.operands[i].may_be(op_.storage(i))) {
        return fmt::format("{}: {} is stored as it cannot be", schema_.name,
                           schema_.operands[i].name);
      }
    }
    for (size_t i = 0; i < schema_.attributes.size(); ++i) {
      const Attribute& attribute = schema_.attributes[i];
      const int64_t value = op_[schema_.attribute_field(i)];
      if (attribute.kind == AttributeKind::kRedOp && (value < SK_SUM || value > SK_AVG)) {
        return fmt::format("{}: {} has the unknown value {}", schema_.name, attribute.spoken(),
                           value);
      }
      if (attribute.kind == AttributeKind::kRank && (value < 0 || value >= int64_t(world_size_))) {
        return fmt::format("{} in a world of {} has {} {}", describe(op_), world_size_,
                           attribute.spoken(), value);
      }
    }
    return numbers();
  }
  std::string numbers() const {
    for (size_t i = 0; i < schema_.attributes.size(); ++i) {
      if (schema_.attributes[i].runtime) continue;  // Of a run: nothing says it here.
      const std::string outside = outside_of(schema_.attributes[i], op_[schema_.attribute_field(i)],
                                             OpScope(op_, world_size_));
      if (!outside.empty()) return fmt::format("{}: {}", schema_.name, outside);
    }
    return "";
  }
  std::string sizes() const {
    for (size_t i = 0; i < schema_.dimensions.size(); ++i) {
      const int64_t value = op_[schema_.dimension_field(i)];
      if (value >= 0 && value <= kElementsMax) continue;
      return fmt::format("{}: {} is {}, allowed are 0 to 2^46", schema_.name,
                         schema_.dimensions[i].name, value);
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      const Field field = schema_.stride_field(i);
      if (!field || (op_[field] >= 0 && op_[field] <= kElementsMax)) continue;
      return fmt::format("{}: the stride of {} is {}, allowed are 0 to 2^46", schema_.name,
                         schema_.operands[i].name, op_[field]);
    }
    return "";
  }
  // Of what did not come there is one description.
  bool is_nothing_else(uint32_t operand) const {
    const Field stride = schema_.stride_field(operand);
    return op_.type(operand) == first_type(op_, operand) &&
           op_.storage(operand) == schema_.operands[operand].storage && !op_.symmetric(operand) &&
           !op_.aliased(operand) && (!stride || op_[stride] == 0);
  }
  std::string types() const {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      const OperandSchema& operand = schema_.operands[i];
      if (op_.absent(i) && !is_nothing_else(i)) {
        return fmt::format("{}: {} is absent and described", describe(op_), operand.name);
      }
      if (may_have_type(op_, i, op_.type(i))) continue;
      return fmt::format("{}: {} may not be {} (\"{}\")", describe(op_), operand.name,
                         dtype_name(op_.type(i)), operand.types);
    }
    return "";
  }
  std::string layouts() const {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      if (op_.absent(i)) continue;
      const OperandSchema& operand = schema_.operands[i];
      const Stored how = stored(op_, i, world_size_);
      if (!how.failed.ok()) {
        return fmt::format("{}: the shape of {}, \"{}\", {}", describe(op_), operand.name,
                           operand.shape, why(how.failed));
      }
      if (how.storage == Storage::kPackedB) {
        const Field stride = schema_.stride_field(i);
        if ((!stride || op_[stride] == 0) && !flag(op_, operand.turned_by)) continue;
        return fmt::format("{}: {} comes packed, it has neither a stride nor a transpose",
                           describe(op_), operand.name);
      }
      if (how.columns < 0 || how.rows < 0) {
        return fmt::format("{}: the shape of {}, \"{}\", is negative", describe(op_), operand.name,
                           operand.shape);
      }
      if (how.stride < how.columns) {
        return fmt::format("{}: the stride of {}, {}, is shorter than its rows of {}",
                           describe(op_), operand.name, how.stride, how.columns);
      }
      if (operand.only_in_place && !op_.aliased(i)) {
        return fmt::format("{}: {} lies in {} and nowhere else", describe(op_), operand.name,
                           operand.alias);
      }
      if (!op_.aliased(i)) continue;
      const auto home = uint32_t(schema_.operand(operand.alias) - schema_.operands.data());
      if (how.rows <= 1 || how.stride == stored(op_, home, world_size_).stride) continue;
      return fmt::format("{}: in place {} and {} have unlike strides", describe(op_), operand.name,
                         operand.alias);
    }
    return "";
  }
  // What lies between two steps has a size, too.
  std::string arrays() const {
    const OpScope scope(op_, world_size_);
    std::string text;
    for (const InnerArray& inner : schema_.arrays) {
      for_each_axis(inner.shape, [&](std::string_view axis) {
        const ExprValue extent = evaluate(axis, scope);
        if (!text.empty() || (extent.ok() && extent.value >= 0 && extent.value <= kElementsMax)) {
          return;
        }
        text =
            fmt::format("{}: the shape of {}, \"{}\", {}", describe(op_), inner.name, inner.shape,
                        !extent.ok()       ? why(extent)
                        : extent.value < 0 ? "is negative"
                                           : "is beyond 2^46");
      });
    }
    return text;
  }
  std::string conditions() const {
    if (is_pair(op_) && ends_of(op_)[0] == ends_of(op_)[1]) {
      return fmt::format("{}: a rank sends nothing to itself", describe(op_));
    }
    const OpScope scope(op_, world_size_);
    for (const Condition& condition : schema_.conditions) {
      const ExprValue holds = evaluate(condition.holds, scope);
      if (!holds.ok()) {
        return fmt::format("{}: \"{}\" {}", describe(op_), condition.holds, why(holds));
      }
      if (holds.value == 0) return fmt::format("{}: {}", describe(op_), condition.sentence);
    }
    return "";
  }

  const OpDesc& op_;
  const Schema& schema_;
  uint32_t world_size_;
};

}  // namespace

std::string mistake_in(const OpDesc& op, uint32_t world_size) {
  return Judge(op, world_size).mistake();
}

}  // namespace sk
