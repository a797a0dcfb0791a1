// Operations of tests: one struct for all that any of the first eight has.
#ifndef SK_TESTS_SUPPORT_OP_WORDS_H_
#define SK_TESTS_SUPPORT_OP_WORDS_H_

#include "lib/op/ops/product.h"

namespace sk {

// What an operation does not have keeps its value; `out_dtype` is `dtype` where there is no other.
struct TextOp {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kF32, out_dtype = DType::kF32;
  RedOp redop = RedOp::kSum;
  bool symmetric_in = false, symmetric_out = false, in_place = false;
  bool transpose_a = false, pack_b = false, transpose_b = false;
  int32_t root = 0, peer = 0;
  int64_t count = 0, m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;

  bool operator==(const TextOp&) const = default;
};

TextOp text_op(const OpDesc& op);
// Refuses numbers that are no operation, and words that it does not have.
Result<OpDesc> op_of(const TextOp& text);

namespace testing_support {

// Also of words that say the same twice: the result's type of an operation that has but one,
// symmetric memory of an operand that peers never reach.
inline OpDesc op_desc(TextOp text) {
  const Schema& schema = *schema_of(text.kind);
  if (!is_product(schema)) text.out_dtype = text.dtype;
  bool in = false, out = false;
  for (const OperandSchema& operand : schema.operands) {
    (operand.role == Role::kIn ? in : out) |= operand.reached;
  }
  text.symmetric_in &= in;
  text.symmetric_out &= out;
  return op_of(text).value();
}

}  // namespace testing_support
}  // namespace sk

#endif  // SK_TESTS_SUPPORT_OP_WORDS_H_
