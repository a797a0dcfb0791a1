#include "lib/op/extent.h"

#include <utility>

#include "lib/op/expr.h"
#include "lib/op/words.h"

namespace sk {
namespace {

Extent matrix(int64_t rows, int64_t columns, int64_t stride, uint64_t element_bytes) {
  Extent extent;
  if (rows == 0 || columns == 0) return extent;
  extent.rows = uint64_t(rows);
  uint64_t last = 0;
  extent.overflow = __builtin_mul_overflow(uint64_t(columns), element_bytes, &extent.row_bytes) ||
                    __builtin_mul_overflow(uint64_t(stride), element_bytes, &extent.stride) ||
                    __builtin_mul_overflow(extent.stride, extent.rows - 1, &last) ||
                    __builtin_add_overflow(last, extent.row_bytes, &extent.bytes);
  return extent;
}

Extent vector(int64_t count, uint64_t element_bytes) {
  Extent extent;
  extent.overflow = __builtin_mul_overflow(uint64_t(count), element_bytes, &extent.bytes);
  extent.rows = extent.bytes > 0;
  extent.row_bytes = extent.stride = extent.bytes;
  return extent;
}

bool flag(const Schema& schema, const OpDesc& op, const char* attribute) {
  return attribute[0] != '\0' && word(op, schema.attribute(attribute)->member) != 0;
}

Extent own_extent(const Schema& schema, const OpDesc& op, const OperandSchema& operand,
                  const OpScope& scope, uint64_t packed_bytes) {
  if (operand.plain_if[0] != '\0' && !flag(schema, op, operand.plain_if)) {
    return vector(int64_t(packed_bytes), 1);
  }
  const uint64_t element = dtype_bytes(DType(word(op, operand.type)));
  std::array<int64_t, 2> axes{};
  size_t count = 0;
  bool overflow = false;
  for_each_axis(operand.shape, [&](std::string_view axis) {
    const ExprValue value = evaluate(axis, scope);
    overflow |= !value.ok();
    axes[count++] = value.value;
  });
  if (flag(schema, op, operand.turned_by)) std::swap(axes[0], axes[1]);
  Extent extent = count == 1 ? vector(axes[0], element)
                             : matrix(axes[0], axes[1], word(op, operand.stride), element);
  extent.overflow |= overflow;
  return extent;
}

}  // namespace

Operands::Operands(const OpDesc& op, uint32_t world_size, uint64_t packed_bytes)
    : op_(op), world_size_(world_size) {
  const Schema* schema = schema_of(op.kind);
  if (schema == nullptr) return;
  const OpScope scope(*schema, op, world_size, 0);
  bool computes = false;
  for (const OperandSchema& operand : schema->operands) {
    Each& each = operands_[count_];
    each.own = own_extent(*schema, op, operand, scope, packed_bytes);
    each.element_bytes = dtype_bytes(DType(word(op, operand.type)));
    each.home = uint8_t(count_++);
    computes |= operand.role == Role::kOut && (each.own.bytes > 0 || each.own.overflow);
    if (operand.only_on[0] != '\0') {
      each.only_on = word(op, schema->attribute(operand.only_on)->member);
    }
    if (!op.in_place || operand.alias[0] == '\0') continue;
    each.home = uint8_t(schema->operand(operand.alias) - schema->operands.data());
    each.at = operand.alias_at;
  }
  if (!computes) count_ = 0;  // Then nothing is read either.
}

Extent Operands::extent(uint32_t number) const {
  return number < count_ ? operands_[operands_[number].home].own : Extent();
}

Window Operands::window(uint32_t number, uint32_t rank) const {
  if (number >= count_) return {};
  const Each& each = operands_[number];
  if (each.only_on >= 0 && each.only_on != int64_t(rank)) return {};
  if (each.home == number) return {0, each.own.bytes};
  const OpScope scope(*schema_of(op_.kind), op_, world_size_, rank);
  return {uint64_t(evaluate(each.at, scope).value) * each.element_bytes, each.own.bytes};
}

}  // namespace sk
