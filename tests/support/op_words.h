// Operations of tests, in the words of plan texts.
#ifndef SK_TESTS_SUPPORT_OP_WORDS_H_
#define SK_TESTS_SUPPORT_OP_WORDS_H_

#include "lib/op/ops/product.h"
#include "lib/plan/text_op.h"

namespace sk::testing_support {

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

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_OP_WORDS_H_
