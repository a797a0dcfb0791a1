#include "lib/op/extent.h"

#include <algorithm>

#include "lib/op/scope.h"
#include "lib/op/stored.h"

namespace sk {
namespace {

Extent vector(int64_t count, uint64_t element_bytes) {
  Extent extent;
  extent.overflow = __builtin_mul_overflow(uint64_t(count), element_bytes, &extent.bytes);
  extent.rows = extent.bytes > 0;
  extent.row_bytes = extent.stride = extent.bytes;
  return extent;
}

Extent matrix(const Stored& how) {
  Extent extent;
  if (how.rows == 0 || how.columns == 0) return extent;
  extent.rows = uint64_t(how.rows);
  uint64_t last = 0;
  extent.overflow =
      __builtin_mul_overflow(uint64_t(how.columns), how.element_bytes, &extent.row_bytes) ||
      __builtin_mul_overflow(uint64_t(how.stride), how.element_bytes, &extent.stride) ||
      __builtin_mul_overflow(extent.stride, extent.rows - 1, &last) ||
      __builtin_add_overflow(last, extent.row_bytes, &extent.bytes);
  return extent;
}

Extent extent_of(const Stored& how, uint64_t packed_bytes) {
  if (how.storage == Storage::kPackedB) return vector(int64_t(packed_bytes), 1);
  if (how.storage == Storage::kRows) return matrix(how);
  int64_t count = 0;
  const bool overflow = __builtin_mul_overflow(how.rows, how.columns, &count);
  Extent extent = vector(count, how.element_bytes);
  extent.overflow |= overflow;
  return extent;
}

}  // namespace

Operands::Operands(const OpDesc& op, uint32_t world_size, uint64_t packed_bytes)
    : op_(op), world_size_(world_size) {
  const Schema& schema = op.schema();
  bool computes = false;
  for (const OperandSchema& operand : schema.operands) {
    Each& each = operands_[count_];
    const Stored how = stored(op, count_, world_size);
    each.absent = op.absent(count_);
    if (!each.absent) {
      each.own = extent_of(how, packed_bytes);
      each.own.overflow |= !how.failed.ok();
    }
    each.element_bytes = how.element_bytes;
    each.home = uint8_t(count_);
    computes |= operand.role == Role::kOut && (each.own.bytes > 0 || each.own.overflow);
    if (operand.only_on[0] != '\0') each.only_on = op[schema.field(operand.only_on)];
    if (op.aliased(count_++)) {
      each.home = uint8_t(schema.operand(operand.alias) - schema.operands.data());
      each.at = operand.alias_at;
    }
  }
  if (!computes) count_ = 0;  // Then nothing is read either.
}

Extent Operands::extent(uint32_t number) const {
  return number < count_ ? operands_[operands_[number].home].own : Extent();
}

bool Operands::has(uint32_t number, uint32_t rank) const {
  if (number >= count_ || operands_[number].absent) return false;
  const int64_t only_on = operands_[number].only_on;
  return only_on < 0 || only_on == int64_t(rank);
}

bool Operands::passed(uint32_t number) const {
  return home(number) == number || operands_[number].at == std::string_view("0");
}

bool Operands::shared(uint32_t number) const {
  for (uint32_t other = 0; other < count_; ++other) {
    if (other != number && operands_[other].home == number) return true;
  }
  return false;
}

Window Operands::window(uint32_t number, uint32_t rank) const {
  if (!has(number, rank)) return {};
  const Each& each = operands_[number];
  if (each.home == number) return {0, each.own.bytes};
  const ExprValue at = evaluate(each.at, OpScope(op_, world_size_, rank));
  const uint64_t first = uint64_t(at.value) * each.element_bytes;
  const uint64_t whole = operands_[each.home].own.bytes;
  // What is no part of it has no bytes.
  const bool within = at.ok() && at.value >= 0 && first <= whole && each.own.bytes <= whole - first;
  return within ? Window{first, each.own.bytes} : Window{};
}

}  // namespace sk
