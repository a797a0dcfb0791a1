#include "lib/op/ops/collectives.h"

namespace sk {

VectorCall vector_call(const OpDesc& op) {
  const Schema& schema = op.schema();
  VectorCall call;
  const auto read = [&](const char* name, auto& value) {
    const Field field = schema.field(name);
    if (field) value = std::remove_reference_t<decltype(value)>(op[field]);
  };
  if (!schema.operands.empty()) call.dtype = op.type(0);
  read("op", call.redop);
  call.symmetric_in = op.symmetric(0);
  call.symmetric_out = op.symmetric(1);
  call.in_place = op.in_place();
  read("root", call.root);
  read("peer", call.peer);
  read("count", call.count);
  return call;
}

OpDesc describe(const Schema& schema, const VectorCall& call) {
  OpDesc op(schema);
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const OperandSchema& operand = schema.operands[i];
    op.set(OpDesc::type_field(i), int64_t(call.dtype));
    const bool symmetric = operand.role == Role::kIn ? call.symmetric_in : call.symmetric_out;
    if (operand.reached) op.set(OpDesc::symmetric_field(i), symmetric);
    if (operand.alias[0] != '\0') op.set(OpDesc::aliased_field(i), call.in_place);
  }
  const auto write = [&](const char* name, int64_t value) {
    if (const Field field = schema.field(name)) op.set(field, value);
  };
  write("op", int64_t(call.redop));
  write("root", call.root);
  write("peer", call.peer);
  write("count", call.count);
  return op;
}

}  // namespace sk
