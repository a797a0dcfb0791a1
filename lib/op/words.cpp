#include "lib/op/words.h"

namespace sk {

int64_t word(const OpDesc& op, Member member) {
  switch (member) {
    case Member::kNone:
      break;
    case Member::kDType:
      return int64_t(op.dtype);
    case Member::kOutDType:
      return int64_t(op.out_dtype);
    case Member::kRedOp:
      return int64_t(op.redop);
    case Member::kSymmetricIn:
      return op.symmetric_in;
    case Member::kSymmetricOut:
      return op.symmetric_out;
    case Member::kInPlace:
      return op.in_place;
    case Member::kTransposeA:
      return op.transpose_a;
    case Member::kPackB:
      return op.pack_b;
    case Member::kTransposeB:
      return op.transpose_b;
    case Member::kRoot:
      return op.root;
    case Member::kPeer:
      return op.peer;
    case Member::kCount:
      return op.count;
    case Member::kM:
      return op.m;
    case Member::kN:
      return op.n;
    case Member::kK:
      return op.k;
    case Member::kLda:
      return op.lda;
    case Member::kLdb:
      return op.ldb;
    case Member::kLdc:
      return op.ldc;
  }
  return 0;
}

bool OpScope::find(std::string_view name, int64_t* value) const {
  for (const Dimension& dimension : schema_.dimensions) {
    if (name == dimension.name) return *value = word(op_, dimension.member), true;
  }
  if (const Attribute* attribute = schema_.attribute(name)) {
    return *value = word(op_, attribute->member), true;
  }
  if (name == "world") return *value = world_, true;
  if (name == "rank") return *value = rank_, true;
  for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
    if (name == redop_name(RedOp(each))) return *value = each, true;
  }
  return false;
}

bool OpScope::find_is_float(std::string_view name, bool* value) const {
  const OperandSchema* operand = schema_.operand(name);
  if (operand == nullptr) return false;
  *value = is_float(DType(word(op_, operand->type)));
  return true;
}

}  // namespace sk
