// The op line of the text form, which the first seven operations share: one word for each thing
// that any of them has.
#ifndef SK_LIB_PLAN_TEXT_OP_H_
#define SK_LIB_PLAN_TEXT_OP_H_

#include "lib/op/op.h"

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

}  // namespace sk

#endif  // SK_LIB_PLAN_TEXT_OP_H_
