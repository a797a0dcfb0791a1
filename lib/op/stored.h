// How one operand of a call lies in memory, by its schema.
#ifndef SK_LIB_OP_STORED_H_
#define SK_LIB_OP_STORED_H_

#include "lib/op/expr.h"
#include "lib/op/op.h"

namespace sk {

// Rows of `columns` elements, as stored; a vector is one row. Of a packed matrix only `storage`.
struct Stored {
  Storage storage = Storage::kDense;
  int64_t rows = 1, columns = 0;
  int64_t stride = 0;  // From row to row, in elements; of what is dense its columns.
  uint64_t element_bytes = 0;
  ExprValue failed;  // Of the first axis that could not be computed.
};

Stored stored(const OpDesc& op, uint32_t operand, uint32_t world_size);

}  // namespace sk

#endif  // SK_LIB_OP_STORED_H_
