#include "lib/op/extent.h"

#include <algorithm>
#include <array>

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

// Of one call, by its schema.
class Operands {
 public:
  Operands(const Schema& schema, const OpDesc& op, uint32_t world_size, uint32_t rank,
           uint64_t packed_bytes)
      : schema_(schema),
        op_(op),
        scope_(schema, op, world_size, rank),
        packed_bytes_(packed_bytes) {}

  // Without regard to place.
  Extent own(const Operand& operand) const {
    if (operand.plain_if[0] != '\0' && !flag(operand.plain_if)) {
      return vector(int64_t(packed_bytes_), 1);
    }
    const uint64_t element = element_bytes(operand);
    std::array<int64_t, 2> axes{};
    size_t count = 0;
    bool overflow = false;
    for_each_axis(operand.shape, [&](std::string_view axis) {
      const ExprValue value = evaluate(axis, scope_);
      overflow |= !value.ok();
      axes[count++] = value.value;
    });
    Extent extent = count == 1 ? vector(axes[0], element) : rows_of(operand, axes, element);
    extent.overflow |= overflow;
    return extent;
  }
  // In place an operand that is a part of another has that one's memory.
  const Operand& home(const Operand& operand) const {
    return op_.in_place && operand.alias[0] != '\0' ? *schema_.operand(operand.alias) : operand;
  }
  // An operation whose outputs have no elements reads nothing either.
  bool computes_nothing() const {
    return std::all_of(schema_.operands.begin(), schema_.operands.end(), [&](const Operand& each) {
      const Extent extent = each.role == Role::kOut ? own(each) : Extent();
      return extent.bytes == 0 && !extent.overflow;
    });
  }
  bool is_on(const Operand& operand, uint32_t rank) const {
    return operand.only_on[0] == '\0' ||
           uint64_t(word(op_, schema_.attribute(operand.only_on)->member)) == rank;
  }
  uint64_t first_byte(const Operand& operand) const {
    if (&home(operand) == &operand) return 0;
    return uint64_t(evaluate(operand.alias_at, scope_).value) * element_bytes(operand);
  }

 private:
  bool flag(std::string_view attribute) const {
    return word(op_, schema_.attribute(attribute)->member) != 0;
  }
  uint64_t element_bytes(const Operand& operand) const {
    return dtype_bytes(DType(word(op_, operand.type)));
  }
  Extent rows_of(const Operand& operand, std::array<int64_t, 2> axes, uint64_t element) const {
    if (operand.turned_by[0] != '\0' && flag(operand.turned_by)) std::swap(axes[0], axes[1]);
    return matrix(axes[0], axes[1], word(op_, operand.stride), element);
  }

  const Schema& schema_;
  const OpDesc& op_;
  OpScope scope_;
  uint64_t packed_bytes_;
};

}  // namespace

Extent operand_extent(const OpDesc& op, uint32_t number, uint32_t world_size,
                      uint64_t packed_bytes) {
  const Schema* schema = schema_of(op.kind);
  if (schema == nullptr || number >= schema->operands.size()) return {};
  const Operands operands(*schema, op, world_size, 0, packed_bytes);
  if (operands.computes_nothing()) return {};
  return operands.own(operands.home(schema->operands[number]));
}

Window operand_window(const OpDesc& op, uint32_t number, uint32_t world_size, uint32_t rank,
                      uint64_t packed_bytes) {
  const Schema* schema = schema_of(op.kind);
  if (schema == nullptr || number >= schema->operands.size()) return {};
  const Operands operands(*schema, op, world_size, rank, packed_bytes);
  const Operand& operand = schema->operands[number];
  if (operands.computes_nothing() || !operands.is_on(operand, rank)) return {};
  return {operands.first_byte(operand), operands.own(operand).bytes};
}

}  // namespace sk
