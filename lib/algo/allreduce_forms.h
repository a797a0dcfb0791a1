// The forms of all-reduce that have a file of their own.
#ifndef SK_LIB_ALGO_ALLREDUCE_FORMS_H_
#define SK_LIB_ALGO_ALLREDUCE_FORMS_H_

#include "lib/algo/layout.h"
#include "lib/algo/ops.h"

namespace sk::algo {

// The caller's operands: ids of rank 0's input and output, the same where in place.
struct Operands {
  uint32_t in = 0, out = 0;
};
Operands add_operands(Layout& layout, BufferAccess in_access, BufferAccess out_access);

Plan allreduce_exchange(Layout layout, Ranks ranks);
Plan allreduce_staged(Layout layout, Ranks ranks);
Plan allreduce_stream(Layout layout, Ranks ranks);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_ALLREDUCE_FORMS_H_
