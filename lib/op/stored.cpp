#include "lib/op/stored.h"

#include <utility>

#include "lib/op/scope.h"

namespace sk {

Stored stored(const OpDesc& op, uint32_t number, uint32_t world_size) {
  const OperandSchema& operand = op.schema().operands[number];
  Stored out;
  out.storage = op.storage(number);
  out.element_bytes = dtype_bytes(op.type(number));
  if (out.storage == Storage::kPackedB) return out;
  const OpScope scope(op, world_size);
  size_t axes = 0;
  for_each_axis(operand.shape, [&](std::string_view axis) {
    const ExprValue value = evaluate(axis, scope);
    if (!value.ok() && out.failed.ok()) out.failed = value;
    if (axes++ > 0) out.rows = out.columns;
    out.columns = value.value;
  });
  if (flag(op, operand.turned_by)) std::swap(out.rows, out.columns);
  const bool strided = out.storage == Storage::kRows;
  out.stride = strided ? op[op.schema().stride_field(number)] : out.columns;
  return out;
}

}  // namespace sk
